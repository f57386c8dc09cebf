"""Counts the time that training spends on checkpoints and evaluations instead of steps.

The code that saves or evaluates adds its own time here; hooks that measure training read the sums before and after.
"""

import contextlib
import threading
import time
from collections.abc import Iterator

CHECKPOINT, EVALUATION = "checkpoint", "evaluation"


class _Thread(threading.local):
    """The sums of one thread, so that training in several threads does not mix."""

    def __init__(self) -> None:
        self.seconds = {CHECKPOINT: 0.0, EVALUATION: 0.0}
        self.seconds_inside = 0.0  # time of the blocks nested in the current one


_thread = _Thread()


@contextlib.contextmanager
def counted_as(kind: str) -> Iterator[None]:
    """Counts the time of the block, without that of blocks nested in it; `kind` is CHECKPOINT or EVALUATION."""
    start, outside = time.perf_counter(), _thread.seconds_inside
    _thread.seconds_inside = 0.0
    try:
        yield
    finally:
        inside, _thread.seconds_inside = _thread.seconds_inside, outside
        whole = time.perf_counter() - start
        _thread.seconds[kind] += whole - inside
        _thread.seconds_inside += whole


def add(kind: str, seconds: float) -> None:
    """Counts seconds that have just passed."""
    _thread.seconds[kind] += seconds
    _thread.seconds_inside += seconds


def seconds() -> dict[str, float]:
    """Returns the seconds of each kind in this thread so far."""
    return dict(_thread.seconds)


def total() -> float:
    return sum(_thread.seconds.values())
