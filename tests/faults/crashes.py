"""Crash points: copies of a run's folder at every change of a file there; each is gone on with as if after a crash.

The training is stopped while its folder is copied: a copy is what the disk would hold had it been killed then.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import time
from pathlib import Path

from tests.faults.runs import PATHS, Row, arguments, differences, kinds_of_files, run_here, values
from tests.helpers import warm_python

# Events of inotify(7): modified, closed after writing, moved from and to, created, deleted.
_EVENTS = 0x2 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200
_IN_NONBLOCK = 0x800


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Copies and resumes from up to `count` crash points of each path."""
    folder = Path(folder).resolve()
    return [row for path in PATHS[:count] for row in _crash(path, count, folder)]


def _crash(path, count, folder):
    run_dir = folder / path
    copies = _copies(path, folder)
    expected, kinds = values(run_dir), kinds_of_files(run_dir)
    every = max(1, len(copies) // count)
    rows = [_go_on(path, copy, folder, expected, kinds) for copy in copies[every // 2 :: every][:count]]
    shutil.rmtree(folder / f"{path}-copies")
    return rows


def _copies(path, folder):
    """Trains, and copies the folder of the run at every change."""
    run_dir, copies = folder / path, []
    run_dir.mkdir()
    process = warm_python.Popen(
        arguments(path, folder, run_dir), cwd=folder, stdout=folder / "log", stderr=folder / "log"
    )
    watcher = _Watcher(run_dir)
    while process.poll() is None:
        if not watcher.saw_a_change(0.05):
            continue
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it has ended
            _stop(process.pid)
            watcher.watch_all()
            copies.append(folder / f"{path}-copies" / f"{len(copies):05}")
            shutil.copytree(run_dir, copies[-1], symlinks=True)
            os.kill(process.pid, signal.SIGCONT)
    watcher.close()
    assert process.wait() == 0, (folder / "log").read_text()
    return copies


def _stop(pid):
    """Stops a process, and returns when all its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    while any(_state(path) not in "TtZ" for path in Path(f"/proc/{pid}/task").iterdir()):
        time.sleep(0.0005)


def _state(task):
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


class _Watcher:
    """Tells of changes of the files below a folder, by Linux' inotify."""

    def __init__(self, folder):
        self._folder = folder
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(_IN_NONBLOCK)
        self.watch_all()

    def watch_all(self):
        """Watches what folders are there by now."""
        for path, _, _ in os.walk(self._folder):
            self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), _EVENTS)

    def saw_a_change(self, seconds):
        """Returns whether something changes within so many seconds, and discards the events."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        return bool(ready and os.read(self._descriptor, 65536))

    def close(self):
        os.close(self._descriptor)


def _go_on(path, copy, folder, expected, kinds):
    kind = f"{path}, copy {copy.name}"
    steps = sorted(int(found.stem.removeprefix("model.ckpt-")) for found in copy.glob("model.ckpt-*.index"))
    code, _, error = run_here(arguments(path, folder, copy))
    if code != 0 or "Traceback" in error:
        return Row(kind, "", f"exit code {code}: {error[-500:]}")
    litter = kinds_of_files(copy) - kinds
    if litter:
        return Row(kind, "", f"left behind: {', '.join(sorted(litter))}")
    outcome = f"went on from step {steps[-1]}" if steps else "began anew"
    return Row(kind, outcome, differences(copy, expected))
