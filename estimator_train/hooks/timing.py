"""TimingHook: measures seconds per step, examples per second and how training time was spent."""

import array
import datetime
import json
import math
import operator
import os
import time
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_train._engine.events import event_writer
from estimator_train._engine.host import time_spent
from estimator_train._engine.host.files import write_whole
from estimator_train._engine.session import step_outputs
from estimator_train._engine.types import Session, SessionRunArgs, SessionRunContext, SessionRunValues

v1 = tf.compat.v1

_FILE_SECS = 60  # seconds between writes of timing.json


class TimingHook(tf.compat.v1.train.SessionRunHook):
    """Measures the time of every training step, as the TimeHistory hook of older examples does.

    A step is timed from `before_run` to `after_run`, minus checkpoints and evaluations in between; the time therefore
    includes hooks that come earlier in the list. The time of a call of several steps is divided evenly among them. The
    first call of a session counts as warm-up; tracing happens before it and is not part of any step.

    `timing.json` has the `summary()`, and in its list `sessions` one for each training in `output_dir`, with its start
    time and its first and last global step. It is written at most once a minute, and at the end.

        >>> timing = et.TimingHook(estimator.model_dir)
        >>> estimator = estimator.train(train_input_fn, steps=10, hooks=[timing])
        >>> timing.summary()["examples_per_second"] > 0
        True

    Args:
      output_dir: directory for `timing.json` and for TensorBoard scalars; None writes neither.
      every_n_steps: steps between writes of the scalars `examples/sec` and `input_wait_share`.
    """

    def __init__(self, output_dir: str | os.PathLike[str] | None = None, *, every_n_steps: int = 100) -> None:
        self._output_dir = output_dir
        self._file = os.path.join(output_dir, "timing.json") if output_dir else ""
        self._every_n_steps = every_n_steps
        # A long training makes millions of calls, so only these two numbers of each are kept, and sums of the rest.
        self._step_seconds, self._steps = array.array("d"), array.array("q")
        self._warmups: list[int] = []  # the places of the calls that count as warm-up
        self._measured = self._warmup = self._unwritten = _Sum()
        self._earlier_sessions: list[dict[str, Any]] | None = None
        self._ended = _Whole(0.0, dict.fromkeys(time_spent.seconds(), 0.0))
        self._begun: _Whole | None = None
        self._seen = self._ended

    @property
    def times(self) -> list[float]:
        """The duration of each step in seconds, including warm-up."""
        return np.repeat(self._step_seconds, self._steps).tolist()

    def begin(self) -> None:
        if self._begun is not None:  # the previous training failed and never reached end()
            self._ended = self._whole(until=self._seen)
        self._seen = _now()
        self._begun = self._seen.without_features(time_spent.features_of_training())
        graph = v1.get_default_graph()
        tensors = {name: step_outputs.find(graph, name) for name in step_outputs.ABOUT_STEPS}
        self._fetches = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        self._global_step = v1.train.get_global_step()
        self._writer = event_writer(self._output_dir) if self._output_dir else None
        self._unwritten = _Sum()

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        self._is_first = True
        if self._earlier_sessions is None:
            self._started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            self._first_step = self._last_step = int(session.run(self._global_step))
            self._earlier_sessions = _sessions_in(self._file) if self._output_dir and self._first_step else []
            self._written_at = time.perf_counter()

    def next_look(self, global_step: int) -> float:
        if not self._writer:
            return math.inf
        return global_step + self._every_n_steps - self._unwritten.steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._start, self._spent = time.perf_counter(), time_spent.total()
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._seen = _now()
        seconds = self._seen.seconds - self._start - (time_spent.total() - self._spent)
        values = run_values.results
        call = _Sum(
            int(values.get(step_outputs.STEPS, 1)),  # the graph of a model_fn runs one step a call
            seconds,
            values.get(step_outputs.EXAMPLES, math.nan),
            values.get(step_outputs.INPUT_SECONDS, math.nan),
        )
        self._step_seconds.append(seconds / call.steps)
        self._steps.append(call.steps)
        if self._is_first:
            self._is_first = False
            self._warmups.append(len(self._steps) - 1)
            self._warmup = self._warmup.plus(call)
            return
        self._measured = self._measured.plus(call)
        if self._writer:
            self._unwritten = self._unwritten.plus(call)
            if self._unwritten.steps >= self._every_n_steps:
                self._last_step = int(run_context.session.run(self._global_step))
                self._writer.add_summary(_scalars(self._unwritten), self._last_step)
                self._unwritten = _Sum()
                if time.perf_counter() - self._written_at > _FILE_SECS:
                    self._write_file()

    def end(self, session: Session) -> None:
        self._ended, self._begun = self._whole(), None
        self._last_step = int(session.run(self._global_step))
        if self._output_dir:
            self._write_file()

    def summary(self) -> dict[str, float | None]:
        """Returns the measurements as a dict of numbers; a value is None if it was not or could not be measured.

        - `steps`, `seconds`: total training steps and time, without warm-up.
        - `mean_seconds`, `p50_seconds`, `p95_seconds`: the time of a step.
        - `steps_per_second`; `examples_per_second`, over all replicas.
        - `input_wait_seconds`: the part of `seconds` spent waiting for input; `input_wait_share`: the same as a
          fraction between 0 and 1.
        - `warmup_steps`, `warmup_seconds`.
        - `whole_seconds`: the time from the start to the end of all sessions. It is the sum of `seconds`,
          `warmup_seconds`, `features_seconds` (the pass through the layers of `frozen_features` before the first step),
          `checkpoint_seconds`, `evaluation_seconds` (including exporters) and `other_seconds` (starting sessions, later
          hooks, and everything else between steps).
        """
        measured, warmup = self._measured, self._warmup
        p50, p95 = self._percentiles(0.50, 0.95)
        whole, spent = self._whole()
        return {
            "steps": measured.steps,
            "seconds": measured.seconds,
            "mean_seconds": _ratio(measured.seconds, measured.steps),
            "p50_seconds": p50,
            "p95_seconds": p95,
            "steps_per_second": _ratio(measured.steps, measured.seconds),
            "examples_per_second": _ratio(measured.examples, measured.seconds),
            "input_wait_share": _ratio(measured.input_seconds, measured.seconds),
            "warmup_steps": warmup.steps,
            "warmup_seconds": warmup.seconds,
            "whole_seconds": whole,
            "input_wait_seconds": None if math.isnan(measured.input_seconds) else float(measured.input_seconds),
            "features_seconds": spent[time_spent.FEATURES],
            "checkpoint_seconds": spent[time_spent.CHECKPOINT],
            "evaluation_seconds": spent[time_spent.EVALUATION],
            "other_seconds": whole - measured.seconds - warmup.seconds - sum(spent.values()),
        }

    def _percentiles(self, *shares: float) -> list[float] | list[None]:
        """Returns those of the time of a step, without warm-up, as np.percentile does, but without a list of steps."""
        if not self._measured.steps:
            return [None for _ in shares]
        seconds, steps = (np.delete(column, self._warmups) for column in (self._step_seconds, self._steps))
        order = np.argsort(seconds)
        ends = np.cumsum(steps[order])  # of the ranks of each call's steps
        ranks = np.array(shares) * (self._measured.steps - 1)
        below, above = (seconds[order[np.searchsorted(ends, whole(ranks), "right")]] for whole in (np.floor, np.ceil))
        return (below + (ranks % 1) * (above - below)).tolist()

    def _whole(self, until: "_Whole | None" = None) -> "_Whole":
        """Returns the time of all sessions, counting the current one up to `until`, or else up to now."""
        if self._begun is None:
            return self._ended
        until = until or _now()
        spent = {kind: self._ended.spent[kind] + until.spent[kind] - self._begun.spent[kind] for kind in until.spent}
        return _Whole(self._ended.seconds + until.seconds - self._begun.seconds, spent)

    def _write_file(self) -> None:
        summary = self.summary()
        steps = {"started": self._started, "first_step": self._first_step, "last_step": self._last_step}
        sessions = [*(self._earlier_sessions or []), steps | summary]
        write_whole(self._file, json.dumps(summary | {"sessions": sessions}, indent=2) + "\n")
        self._written_at = time.perf_counter()


class _Whole(NamedTuple):
    """A duration or a point in time, with the values of `time_spent` for it."""

    seconds: float
    spent: dict[str, float]

    def without_features(self, seconds: float) -> "_Whole":
        """Returns the time before so many seconds in which frozen layers have computed their outputs."""
        spent = self.spent | {time_spent.FEATURES: self.spent[time_spent.FEATURES] - seconds}
        return _Whole(self.seconds - seconds, spent)


def _now() -> _Whole:
    return _Whole(time.perf_counter(), time_spent.seconds())


class _Sum(NamedTuple):
    """The measurements of one session.run, or their sums."""

    steps: int = 0
    seconds: float = 0.0
    examples: float = 0
    input_seconds: float = 0.0

    def plus(self, other: "_Sum") -> "_Sum":
        return _Sum(*map(operator.add, self, other))


def _sessions_in(path: str) -> list[dict[str, Any]]:
    """Returns the sessions in the timing.json at `path`; if it cannot be read, logs a warning and returns []."""
    if not tf.io.gfile.exists(path):
        return []
    try:
        with tf.io.gfile.GFile(path) as file:
            timing = json.load(file)
        sessions = timing["sessions"]
        if not all(isinstance(session, dict) for session in sessions):
            raise ValueError("its sessions are not JSON objects")
    except (tf.errors.OpError, ValueError, KeyError, TypeError, RecursionError) as error:
        tf.get_logger().warning("Cannot read %s, so earlier sessions are left out: %s", path, error)
        return []
    return sessions


def _scalars(window: _Sum) -> tf.compat.v1.Summary:
    scalars = {
        "examples/sec": _ratio(window.examples, window.seconds),
        "input_wait_share": _ratio(window.input_seconds, window.seconds),
    }
    values = [v1.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items() if value is not None]
    return v1.Summary(value=values)


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole and not math.isnan(part) else None
