"""Host memory: reuses the memory of batches and activations between steps, and allocates caches as they fill."""

import ctypes
import functools
import math
import mmap
import os
import platform
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8  # mallopt's parameters, from glibc's malloc.h
_MAP_NORESERVE = 0x4000  # of Linux; in Python's mmap from 3.13 on
_CACHE_LINE = 64  # bytes


@functools.cache
def keep_freed_memory() -> None:
    """Makes glibc keep freed memory instead of returning it to the system, unless the environment sets that."""
    # By default it maps every block of more than 32 MB, such as a batch of images, each time, and trims free memory at
    # the end of a heap. The system then clears the pages again in each step, which takes longer than reading a cached
    # batch. One heap for all threads lets each of them use what another has freed.
    is_set = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if platform.libc_ver()[0] != "glibc" or is_set:
        return
    libc = ctypes.CDLL(None)
    for parameter, value in ((_M_TRIM_THRESHOLD, 2**31 - 1), (_M_MMAP_MAX, 0), (_M_ARENA_MAX, 1)):
        libc.mallopt(parameter, value)


def lazy_zeros(shape: Sequence[int], dtype: npt.DTypeLike) -> np.ndarray:
    """Returns an array of zeros that only takes memory for the parts that are written, and releases it when freed."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if platform.system() != "Linux" or not size:
        return np.zeros(shape, dtype)
    # For an array of NumPy's that is larger than all memory, the system would refuse the allocation.
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
    return np.frombuffer(memory, dtype).reshape(shape)


def aligned_empty(shape: Sequence[int], dtype: npt.DTypeLike) -> np.ndarray:
    """Returns an empty array aligned to cache lines, which TensorFlow can use without a copy."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        return np.empty(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _CACHE_LINE, np.uint8)
    begin = -memory.ctypes.data % _CACHE_LINE
    return memory[begin : begin + size].view(dtype).reshape(shape)
