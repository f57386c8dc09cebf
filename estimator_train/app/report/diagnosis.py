"""Diagnoses what limits a training (input, steps or evaluations), how fast each could be, and what to change."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf

from estimator_train._engine.application import batch_sizes
from estimator_train.app.runs.advice import lines_for

_MUCH = 0.1  # fraction of the time
_PAUSES = ("evaluation", "checkpoint")


def input_ceiling(input_fn: Callable[..., tf.data.Dataset], *, seconds: float = 2.0) -> float | None:
    """Measures for `seconds` how many examples/s `input_fn` alone gives after its first batch; None without a second.

    >>> input_ceiling(train_input_fn, seconds=0.01) > 0
    True
    """
    sizes = batch_sizes(input_fn)
    if next(sizes, None) is None:
        return None
    examples, start = 0, time.perf_counter()
    for size in sizes:
        examples += size
        if time.perf_counter() - start > seconds:
            break
    return examples / (time.perf_counter() - start) if examples else None


def diagnose(
    timing: Mapping[str, Any], input_examples_per_second: float | None = None, *, turned: Collection[str] = ()
) -> str:
    """Returns a paragraph about what limits a training.

    The ceiling of the steps is their throughput without waiting for input. Evaluations and checkpoints are not part of
    a step; they are mentioned if they take more than a tenth of the total time.

        >>> timing = {"input_wait_share": 0.4, "examples_per_second": 30.0}
        >>> diagnose(timing, 31.0).partition("; ")[0]
        'Bound by input: 40% of the time was spent waiting for input'

    Args:
      timing: `TimingHook.summary()`.
      input_examples_per_second: the result of `input_ceiling`.
      turned: names of `runs.advice.ADVICE` that are not suggested, because the training has them or cannot have them:
        cache, fast, cache=features, mixed_precision, gpus, batch_size, evaluate_every, async_checkpoints or
        save_checkpoints_steps.
    """
    wait, rate = timing["input_wait_share"], timing["examples_per_second"]
    step_rate = rate / max(1 - wait, 1e-9)
    ceilings = f"the steps alone would reach {step_rate:.1f} examples/s"
    if input_examples_per_second is not None:
        ceilings += f", the input alone {input_examples_per_second:.1f}"
    by = "compute"
    if wait > _MUCH:
        by = "input"
    sentences = [f"Bound by {by}: {wait:.0%} of the time was spent waiting for input; {ceilings}."]
    if to_turn := "; ".join(lines_for(by, turned)):
        sentences.append(f"Try: {to_turn}.")
    return " ".join([*sentences, *_interruptions(timing, turned)])


def _interruptions(timing, turned):
    """Yields a sentence each for evaluations and checkpoints if they take long."""
    for kind in _PAUSES:
        share = timing.get(f"{kind}_seconds", 0) / timing.get("whole_seconds", 1)
        if share > _MUCH:
            sentence = f"{kind.capitalize()}s took {share:.0%} of the total time"
            if to_turn := " or ".join(lines_for(kind, turned)):
                sentence += f"; {to_turn} would reduce that"
            yield f"{sentence}."
