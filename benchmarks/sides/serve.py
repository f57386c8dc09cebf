"""The process of a side: runs its work on each request and reports the measurements.

It uses only the standard library and runs on Python 3.9, which some peers need.
"""

import importlib.metadata
import json
import os
import platform
import sys
import time


def serve(works, packages, device):
    """Sets up the work named on the command line and answers each line of stdin with a line of JSON on stdout.

    Args:
      works: functions to choose from. Each takes the options of the command line, sets up and warms up, and returns the
        function to measure. If that returns a dict, it is added to the measurements.
      packages: names of packages whose versions to report.
      device: a function that returns the name of the device.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # redirects everything that is printed to stderr
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
    """Returns wall-clock seconds, and processor seconds of this process and its finished children."""
    return time.perf_counter(), cpu_seconds()


def since(begin, end=None):
    """Returns an answer's times between two calls of `now()`."""
    end = end or now()
    return {"wall": end[0] - begin[0], "cpu": end[1] - begin[1]}


def cpu_seconds():
    return time.process_time() + sum(os.times()[2:4])


def peak_bytes():
    """Returns the peak resident memory of this process."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
