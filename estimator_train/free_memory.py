"""How much memory there is left."""

import contextlib
import math
import os


def free_memory():
    """Bytes of memory that can be had, of the machine and of the container; without limit where neither tells."""
    free = [math.inf]
    with contextlib.suppress(FileNotFoundError), open("/proc/meminfo") as file:
        free += [int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")]
    if os.path.exists("/sys/fs/cgroup/memory.max"):
        with open("/sys/fs/cgroup/memory.max") as limit, open("/sys/fs/cgroup/memory.current") as used:
            limit = limit.read().strip()
            free.append(math.inf if limit == "max" else int(limit) - int(used.read()))
    return min(free)
