"""The process of a side: it does its piece of work whenever it is told to, and tells what that took.

Only the standard library, and Python 3.9, which some peers need.
"""

import importlib.metadata
import json
import os
import platform
import sys
import time


def serve(works, packages, device):
    """Sets up the work that the command line names, and answers each line of stdin with a line of JSON on stdout.

    Args:
      works: functions by name. Each takes the options of the command line, sets up and warms up, and returns the piece
        to be measured: a function whose dict, if it returns one, is added to what is measured here.
      packages: names of those whose versions tell what was measured.
      device: a function that returns the name of what computes.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whoever prints does so to stderr
    piece = works[sys.argv[1]](**json.loads(sys.argv[2]))
    print("{}", file=answers, flush=True)
    for _ in sys.stdin:
        begin = now()
        own = piece() or {}
        measured = since(begin) | own
        versions = {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in packages},
        }
        print(json.dumps({**measured, "versions": versions, "device": device()}), file=answers, flush=True)


def now():
    """Seconds of the clock, and of the cores in this process and its children that have ended."""
    return time.perf_counter(), cpu_seconds()


def since(begin, end=None):
    """What an answer has of the time between two `now()`."""
    end = end or now()
    return {"wall": end[0] - begin[0], "cpu": end[1] - begin[1]}


def cpu_seconds():
    return time.process_time() + sum(os.times()[2:4])


def peak_bytes():
    """The most memory that this process has had resident."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
