"""TimingHook: seconds a step, examples a second, and how much of it all is waiting for input."""

from __future__ import annotations

import json
import math
import os
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from estimator_train.events import event_writer
from estimator_train.host.files import write_whole
from estimator_train.session import step_outputs

v1 = tf.compat.v1


class TimingHook(tf.compat.v1.train.SessionRunHook):
    """Measures every training step; the grown-up TimeHistory.

    A step's time runs from `before_run` to `after_run`, and so holds what hooks before this one in the list do, such as
    writing a checkpoint. With `RunConfig(steps_per_loop=n)` each of a call's n steps counts with an nth of its time.
    The first call of a session is warm-up, which the summary tells apart. Tracing comes before it and is in no step.

    Args:
      output_dir: directory for `timing.json`, written at the end, and for TensorBoard's scalars; None: neither.
      every_n_steps: steps between two writes of the scalars `examples/sec` and `input_wait_share`.
    """

    def __init__(self, output_dir: str | os.PathLike[str] | None = None, *, every_n_steps: int = 100) -> None:
        self._output_dir = output_dir
        self._every_n_steps = every_n_steps
        self._calls = []

    @property
    def times(self) -> list[float]:
        """Seconds of each step, warm-up included, a list of floats."""
        return _step_times(self._calls)

    def begin(self) -> None:
        graph = v1.get_default_graph()
        tensors = {name: step_outputs.find(graph, name) for name in step_outputs.ABOUT_STEPS}
        self._fetches = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        self._global_step = v1.train.get_global_step()
        self._writer = event_writer(self._output_dir) if self._output_dir else None
        self._unwritten = []

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        self._is_first = True

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> tf.compat.v1.train.SessionRunArgs:
        self._start = time.perf_counter()
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(
        self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
    ) -> None:
        seconds = time.perf_counter() - self._start
        values = run_values.results
        call = _Call(
            steps=int(values.get(step_outputs.STEPS, 1)),  # a graph of a model_fn does one
            seconds=seconds,
            examples=values.get(step_outputs.EXAMPLES, math.nan),
            input_seconds=values.get(step_outputs.INPUT_SECONDS, math.nan),
            is_warmup=self._is_first,
        )
        self._is_first = False
        self._calls.append(call)
        if self._writer and not call.is_warmup:
            self._unwritten.append(call)
            if sum(call.steps for call in self._unwritten) >= self._every_n_steps:
                self._write_scalars(run_context.session.run(self._global_step))

    def end(self, session: tf.compat.v1.Session) -> None:
        if self._output_dir:
            write_whole(os.path.join(self._output_dir, "timing.json"), json.dumps(self.summary(), indent=2) + "\n")

    def summary(self) -> dict[str, float | None]:
        """What was measured, a dict of numbers; None where nothing was, or where the graph does not tell.

        `steps`, `seconds`: in total, without warm-up, as all but the last two. `mean_seconds`, `p50_seconds`,
        `p95_seconds`: of a step. `steps_per_second`; `examples_per_second`, over all replicas; `input_wait_share`,
        between 0 and 1; `warmup_steps`, `warmup_seconds`.
        """
        measured = _total(call for call in self._calls if not call.is_warmup)
        warmup = _total(call for call in self._calls if call.is_warmup)
        times = _step_times(call for call in self._calls if not call.is_warmup)
        return {
            "steps": measured.steps,
            "seconds": measured.seconds,
            "mean_seconds": _ratio(measured.seconds, measured.steps),
            "p50_seconds": float(np.percentile(times, 50)) if times else None,
            "p95_seconds": float(np.percentile(times, 95)) if times else None,
            "steps_per_second": _ratio(measured.steps, measured.seconds),
            "examples_per_second": _ratio(measured.examples, measured.seconds),
            "input_wait_share": _ratio(measured.input_seconds, measured.seconds),
            "warmup_steps": warmup.steps,
            "warmup_seconds": warmup.seconds,
        }

    def _write_scalars(self, global_step):
        window = _total(self._unwritten)
        self._unwritten = []
        summary = v1.Summary()
        scalars = {
            "examples/sec": _ratio(window.examples, window.seconds),
            "input_wait_share": _ratio(window.input_seconds, window.seconds),
        }
        for tag, value in scalars.items():
            if value is not None:
                summary.value.add(tag=tag, simple_value=value)
        self._writer.add_summary(summary, global_step)


class _Call(NamedTuple):
    """One session.run."""

    steps: int
    seconds: float
    examples: float
    input_seconds: float
    is_warmup: bool = False


def _total(calls):
    calls = list(calls)
    return _Call(*(sum(getattr(call, field) for call in calls) for field in _Call._fields[:4]))


def _step_times(calls):
    return [call.seconds / call.steps for call in calls for _ in range(call.steps)]


def _ratio(part, whole):
    return float(part / whole) if whole and not math.isnan(part) else None
