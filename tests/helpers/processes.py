"""Waits for processes that are no children of this one."""

import os
import time
from pathlib import Path


def wait_for_the_end_of(pids):
    deadline = time.monotonic() + 120
    for pid in pids:
        while is_alive(pid):
            assert time.monotonic() < deadline, f"process {pid} does not end"
            time.sleep(0.05)


def is_alive(pid):
    try:
        os.kill(pid, 0)
        # One whose parent has ended may stay behind as a zombie, where nothing reaps it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
