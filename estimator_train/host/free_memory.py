"""How much memory there is left."""

import math
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
# A container's limit, its use, and what of that is page cache which goes first: in cgroup version 2 and in version 1.
_CGROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def free_memory():
    """Bytes of memory that can be had, of the machine and of the container; without limit where neither tells."""
    free = [math.inf]
    if _MEMINFO.exists() and "MemAvailable:" in _MEMINFO.read_text():
        free.append(_number(_MEMINFO, "MemAvailable:") * 1024)
    for limit, used, parts, droppable in _CGROUP_FILES:
        if (_CGROUP / limit).exists() and (_CGROUP / limit).read_text().strip() != "max":
            taken = int((_CGROUP / used).read_text()) - _number(_CGROUP / parts, droppable)
            free.append(int((_CGROUP / limit).read_text()) - taken)
    return min(free)


def _number(file, name):
    """Returns the number on the line of that name in a file of names and numbers, or 0."""
    return sum(int(line.split()[1]) for line in file.read_text().splitlines() if line.split()[:1] == [name])
