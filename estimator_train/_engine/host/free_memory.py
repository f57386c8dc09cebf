"""Reports how much memory is available."""

import math
from pathlib import Path

# psutil would replace one line of this file, for a compiled dependency of the library; it ignores containers' limits.
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
# For cgroup versions 2 and 1: a container's memory limit, its usage, and the page cache in it that can be reclaimed.
_CGROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def free_memory() -> float:
    """Returns the available memory in bytes; math.inf if neither the machine nor the container reports it."""
    free = [math.inf]
    if _MEMINFO.exists() and "MemAvailable:" in _MEMINFO.read_text():
        free.append(_number(_MEMINFO, "MemAvailable:") * 1024)
    for limit, used, parts, droppable in _CGROUP_FILES:
        if (_CGROUP / limit).exists() and (_CGROUP / limit).read_text().strip() != "max":
            taken = int((_CGROUP / used).read_text()) - _number(_CGROUP / parts, droppable)
            free.append(int((_CGROUP / limit).read_text()) - taken)
    return min(free)


def _number(file: Path, name: str) -> int:
    """Returns the number on the line that starts with `name` in a file of names and numbers, or 0."""
    return sum(int(line.split()[1]) for line in file.read_text().splitlines() if line.split()[:1] == [name])
