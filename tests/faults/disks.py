"""Full disks: a run on a full disk says so in one line, and continues once there is space.

The disks are in-memory file systems, which only root can mount; other users skip this.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from tests.faults.kills import LIMIT_SECS, leave_alone, start
from tests.faults.runs import Row, differences


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Trains on `count` disks that hold a part of what a run writes."""
    folder, draw = Path(folder).resolve(), random.Random(seed)
    _, expected, _ = leave_alone("command", folder)
    needed = sum(path.stat().st_size for path in (folder / "command").rglob("*")) // 1024
    return [_fill(draw.randrange(20, needed), folder / f"run-{number}", expected) for number in range(count)]


def _fill(kilobytes, disk, expected):
    kind = f"a disk of {kilobytes} kB"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", disk]).returncode != 0:
        return Row(kind, "not tried: nothing can be mounted here", None)
    try:
        log = disk.parent / f"{disk.name}.log"
        code = start("command", disk.parent, disk.name).wait(LIMIT_SECS)
        said = log.read_text()
        if code == 0:
            return Row(kind, "there was room enough", None)
        if "Traceback" in said or "full" not in said.splitlines()[-1]:
            return Row(kind, "", f"exit code {code}: {said[-500:]}")
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
        if start("command", disk.parent, disk.name).wait(LIMIT_SECS) != 0:
            return Row(kind, "", f"did not go on: {log.read_text()[-500:]}")
        return Row(kind, "said so, and went on with more room", differences(disk, expected))
    finally:
        subprocess.run(["umount", disk], check=True)
