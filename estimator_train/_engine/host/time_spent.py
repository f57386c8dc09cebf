"""Counts the time that training spends on checkpoints, evaluations and the outputs of frozen layers instead of steps.

The code that saves or evaluates adds its own time here; hooks that measure training read the sums before and after.
"""

import contextlib
import threading
import time
from collections.abc import Iterator

CHECKPOINT, EVALUATION, FEATURES = _KINDS = "checkpoint", "evaluation", "features"


class _Thread(threading.local):
    """The sums of one thread, so that training in several threads does not mix."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(_KINDS, 0.0)
        self.features_before: float | None = None  # of FEATURES when the current training began
        self.seconds_inside = 0.0  # time of the blocks nested in the current one


_thread = _Thread()


@contextlib.contextmanager
def counted_as(kind: str) -> Iterator[None]:
    """Counts the time of the block, without that of blocks nested in it; `kind` is one of the above."""
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


@contextlib.contextmanager
def training() -> Iterator[None]:
    """Wraps a training, whose frozen layers may compute their outputs before its hooks begin."""
    _thread.features_before = _thread.seconds[FEATURES]
    try:
        yield
    finally:
        _thread.features_before = None


def features_of_training() -> float:
    """Returns the seconds of FEATURES in the current training of this thread; 0 outside of one."""
    if _thread.features_before is None:
        return 0.0
    return _thread.seconds[FEATURES] - _thread.features_before


def total() -> float:
    return sum(_thread.seconds.values())
