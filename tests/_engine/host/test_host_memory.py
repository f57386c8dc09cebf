import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from estimator_train._engine.host import host_memory

FAULTS = """
import resource
from estimator_train._engine.host import host_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(64 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

host_memory.keep_freed_memory()
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
@pytest.mark.parametrize(("variables", "kept"), [({}, True), ({"MALLOC_ARENA_MAX": "2"}, False)])
def test_freed_memory_is_used_again_unless_the_user_has_set_malloc(variables, kept):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | variables
    command = [sys.executable, "-c", FAULTS]
    faults = int(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    pages = (64 << 20) // os.sysconf("SC_PAGE_SIZE")
    assert faults < pages / 100 if kept else faults > pages / 100


@pytest.mark.skipif(platform.system() != "Linux", reason="other systems have other limits")
def test_a_growing_array_may_exceed_memory_and_uses_only_what_is_written():
    with open("/proc/meminfo") as file:
        total = sum(1024 * int(line.split()[1]) for line in file if line.startswith(("MemTotal", "SwapTotal")))
    array = host_memory.lazy_zeros((2 * total // 4096, 1024), np.float32)
    array[1] = 7.0
    assert array[:3, -1].tolist() == [0, 7, 0]
    assert host_memory.lazy_zeros((0, 3), np.float32).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, object])
def test_an_aligned_array_has_its_shape_and_begins_a_cache_line(dtype):
    array = host_memory.aligned_empty((3, 5), dtype)
    assert array.shape == (3, 5) and array.dtype == dtype
    assert dtype is object or array.ctypes.data % 64 == 0
