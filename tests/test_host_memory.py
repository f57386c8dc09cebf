import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
from estimator_train import host_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(64 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

host_memory.keep()
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
