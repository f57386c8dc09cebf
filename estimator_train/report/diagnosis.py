"""Diagnoses what limits a training (input, steps or evaluations), how fast each could be, and what to change."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf

from estimator_train.distribution.replica_input import batch_size, call_input_fn
from estimator_train.host.dataset_iterators import iterate
from estimator_train.input_fns.protocols import on_host_and_device, without_changes

_MUCH = 0.1  # a share of the time
_SMALL_STEP_SECONDS = 0.005  # at about that, what Python does between steps is a tenth of them: see docs/performance.md


def input_ceiling(input_fn: Callable[..., tf.data.Dataset], *, seconds: float = 2.0) -> float | None:
    """Examples a second that the data of `input_fn` gives when nothing else runs, measured for so long.

    The first batch is not counted. None where there is no second one.
    """
    input_fn, _ = without_changes(input_fn)
    batches = iterate(call_input_fn(on_host_and_device(input_fn)[0]))  # as training takes it
    if next(batches, None) is None:
        return None
    examples, start = 0, time.perf_counter()
    for batch in batches:
        examples += int(batch_size(batch))
        if time.perf_counter() - start > seconds:
            break
    return examples / (time.perf_counter() - start) if examples else None


def diagnose(
    timing: Mapping[str, Any], input_examples_per_second: float | None = None, *, turned: Collection[str] = ()
) -> str:
    """A paragraph from `TimingHook.summary()` and `input_ceiling`; `turned`: the flags that are turned already.

    The ceiling of the steps is what they would do if none waited for input. Evaluations and checkpoints are no part of
    a step; a sentence names them where they take more than a tenth of the whole time.
    """
    wait, rate = timing["input_wait_share"], timing["examples_per_second"]
    of_steps = rate / max(1 - wait, 1e-9)
    ceilings = f"the steps alone would take {of_steps:.1f} examples/s"
    if input_examples_per_second is not None:
        ceilings += f", the input alone gives {input_examples_per_second:.1f}"
    is_bound_by_input = wait > _MUCH
    by = "input" if is_bound_by_input else "compute"
    advice: dict[str, str | None]
    if is_bound_by_input:
        advice = {
            "--cache": "--cache memory or --cache FOLDER, which decode the images once",
            "--fast": "--fast, where the files are much larger than --image-size",
            "": "more CPU cores, or the workers of a tf.data service",
        }
    else:
        advice = {
            "--steps-per-loop": "--steps-per-loop 50, for what Python does between short steps"
            if timing["mean_seconds"] < _SMALL_STEP_SECONDS
            else None,
            "--cache features": "--cache features, where the model's first layers are frozen",
            "--mixed-precision": "--mixed-precision bfloat16, on hardware that has it",
            "": "--gpus N, or a larger --batch-size",
        }
    to_turn = "; ".join(text for flag, text in advice.items() if text and flag not in turned)
    bound = f"Bound by {by}: {wait:.0%} of the time was waiting for input; {ceilings}. To turn: {to_turn}."
    return " ".join([bound, *_interruptions(timing, turned)])


def _interruptions(timing, turned):
    """A sentence for evaluations and for checkpoints if they take long."""
    advice = {
        "evaluation": {"--evaluate-every": "--evaluate-every with more steps"},
        "checkpoint": {
            "--async-checkpoints": "--async-checkpoints",
            "--save-checkpoints-steps": "--save-checkpoints-steps with more steps",
        },
    }
    for kind, flags in advice.items():
        share = timing.get(f"{kind}_seconds", 0) / timing.get("whole_seconds", 1)
        if share > _MUCH:
            to_turn = " or ".join(text for flag, text in flags.items() if flag not in turned)
            yield f"{kind.capitalize()}s took {share:.0%} of the whole time: {to_turn} would take less."
