"""The memory of batches and activations on the host, kept by the process from step to step."""

from __future__ import annotations

import ctypes
import functools
import os
import platform

# mallopt's parameters, from glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


@functools.cache
def keep():
    """Has glibc keep the memory that is freed, instead of giving it back to the system; nothing with another libc.

    By default it maps every block of more than 32 MB, such as a batch of images, anew, and trims what is free at the
    end of a heap. The system then clears the pages once more in each step, which takes longer than reading a cached
    batch does. One heap for all threads lets any of them have what another has freed. Where MALLOC_ variables or
    GLIBC_TUNABLES are set, they hold.
    """
    is_set = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if platform.libc_ver()[0] != "glibc" or is_set:
        return
    libc = ctypes.CDLL(None)
    for parameter, value in ((_M_TRIM_THRESHOLD, 2**31 - 1), (_M_MMAP_MAX, 0), (_M_ARENA_MAX, 1)):
        libc.mallopt(parameter, value)
