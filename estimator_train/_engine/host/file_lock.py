"""Lets one process at a time into a block of code."""

import contextlib
import os
from collections.abc import Callable, Iterator

import filelock


@contextlib.contextmanager
def one_at_a_time(path: str | os.PathLike[str], report_waiting: Callable[[], None]) -> Iterator[None]:
    """Locks the file at `path` during the block; calls `report_waiting` if another process holds the lock."""
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        report_waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
