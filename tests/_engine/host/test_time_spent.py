"""Time is counted once, for the innermost block, and per thread."""

import threading
import time

import pytest

from estimator_train._engine.host import time_spent
from estimator_train._engine.host.time_spent import CHECKPOINT, EVALUATION, FEATURES


@pytest.fixture
def passes(monkeypatch):
    """Lets so many seconds pass."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def passes(seconds):
        now[0] += seconds

    return passes


def since(before):
    return {kind: seconds - before[kind] for kind, seconds in time_spent.seconds().items()}


def test_a_block_counts_without_those_inside_it(passes):
    before = time_spent.seconds()
    passes(1)
    with time_spent.counted_as(EVALUATION):
        passes(2)
        with time_spent.counted_as(EVALUATION):
            passes(4)
        time_spent.add(CHECKPOINT, 8)
        passes(8)
    passes(16)
    with time_spent.counted_as(CHECKPOINT):
        passes(32)
    assert since(before) == {EVALUATION: 6, CHECKPOINT: 40, FEATURES: 0}


def test_a_block_that_fails_counts_too(passes):
    before = time_spent.seconds()
    with pytest.raises(ValueError), time_spent.counted_as(EVALUATION), time_spent.counted_as(CHECKPOINT):
        passes(2)
        raise ValueError
    assert since(before) == {EVALUATION: 0, CHECKPOINT: 2, FEATURES: 0}


def test_threads_have_sums_of_their_own(passes):
    before = time_spent.total()

    def evaluate():
        with time_spent.counted_as(EVALUATION):
            passes(3)

    thread = threading.Thread(target=evaluate)
    thread.start()
    thread.join()
    assert time_spent.total() == before
