"""Early stopping: hooks that end training depending on evaluation metrics, a function or a checkpoint's step."""

import math
import operator
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import tensorflow as tf

from estimator_train._engine import checkpoints
from estimator_train._engine.events import read_eval_metrics
from estimator_train._engine.host import model_dirs
from estimator_train._engine.keras_forms import refuses_keras_arguments
from estimator_train._engine.remedies import ArgumentError, Setting
from estimator_train._engine.session.timer import StepTimer
from estimator_train._engine.types import SessionRunArgs, SessionRunContext, SessionRunValues
from estimator_train.estimator import Estimator

v1 = tf.compat.v1
log = tf.get_logger()

# Returns why to stop, given a metric's values by global steps in ascending order, or None.
Condition: TypeAlias = Callable[[dict[int, float]], str | None]


def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.compat.v1.train.SessionRunHook:
    """Returns a hook that stops training once `should_stop_fn()` returns True.

        >>> from pathlib import Path
        >>> stop = et.experimental.make_early_stopping_hook(estimator, Path("STOP").exists, run_every_secs=30)
        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=1000, hooks=[stop])

    Args:
      estimator: the `Estimator` being trained.
      should_stop_fn: a function without arguments that returns a bool.
      run_every_secs: seconds between calls of `should_stop_fn`; pass None if `run_every_steps` is set.
      run_every_steps: global steps between calls, as an alternative to seconds.

    Raises:
      TypeError: `estimator` is not an Estimator, or `should_stop_fn` is not callable.
      ValueError: both intervals are given, or neither.
    """
    _check_estimator(estimator)
    if not callable(should_stop_fn):
        raise TypeError(f"should_stop_fn must be callable, given: {should_stop_fn!r}")
    return _StopHook(should_stop_fn, run_every_secs, run_every_steps)


def stop_if_higher_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.compat.v1.train.SessionRunHook:
    """Returns a hook that stops training once an evaluation reports a metric above a threshold.

        >>> stop = et.experimental.stop_if_higher_hook(estimator, "accuracy", 0.98, min_steps=500)
        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=1000, hooks=[stop])

    Args:
      estimator: the `Estimator` being trained.
      metric_name: the name of an evaluation metric.
      threshold: training stops once the metric is above this value.
      eval_dir: directory of the evaluation's event files. None selects, in `train_and_evaluate`, the evaluation without
        a name or else the only one; elsewhere `estimator.eval_dir()`.
      min_steps: evaluations before this global step are ignored.
      run_every_secs, run_every_steps: see `make_early_stopping_hook`.

    Raises:
      TypeError: `estimator` is not an Estimator.
      ValueError: both intervals are given, or neither. When training starts or the first evaluation is read: the
        evaluation has no such metric, or there are several evaluations to choose from.
    """
    condition = _crosses(operator.gt, "greater than", metric_name, threshold, min_steps)
    return StopOnMetricHook(estimator, metric_name, condition, eval_dir, run_every_secs, run_every_steps)


def stop_if_lower_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.compat.v1.train.SessionRunHook:
    """Returns a hook that stops training once an evaluation reports a metric below a threshold.

    Arguments and errors are those of `stop_if_higher_hook`.

        >>> stop = et.experimental.stop_if_lower_hook(estimator, "loss", 0.01)
        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=1000, hooks=[stop])
    """
    condition = _crosses(operator.lt, "less than", metric_name, threshold, min_steps)
    return StopOnMetricHook(estimator, metric_name, condition, eval_dir, run_every_secs, run_every_steps)


@refuses_keras_arguments
def stop_if_no_increase_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.compat.v1.train.SessionRunHook:
    """Returns a hook that stops training once a metric's highest value is `max_steps_without_increase` steps old.

    Steps are global steps; NaN is worse than any other value. The other arguments and the errors are those of
    `stop_if_higher_hook`.

        >>> stop = et.experimental.stop_if_no_increase_hook(estimator, "accuracy", max_steps_without_increase=200)
        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=1000, hooks=[stop])
    """
    condition = _stands_still(operator.gt, "increase", metric_name, max_steps_without_increase, min_steps)
    return StopOnMetricHook(estimator, metric_name, condition, eval_dir, run_every_secs, run_every_steps)


@refuses_keras_arguments
def stop_if_no_decrease_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.compat.v1.train.SessionRunHook:
    """Returns a hook that stops training once a metric's lowest value is `max_steps_without_decrease` steps old.

    Steps are global steps; NaN is worse than any other value. The other arguments and the errors are those of
    `stop_if_higher_hook`.

        >>> stop = et.experimental.stop_if_no_decrease_hook(estimator, "loss", max_steps_without_decrease=200)
        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=1000, hooks=[stop])
    """
    condition = _stands_still(operator.lt, "decrease", metric_name, max_steps_without_decrease, min_steps)
    return StopOnMetricHook(estimator, metric_name, condition, eval_dir, run_every_secs, run_every_steps)


def make_stop_at_checkpoint_step_hook(
    estimator: Estimator, last_step: int, wait_after_file_check_secs: float = 30
) -> tf.compat.v1.train.SessionRunHook:
    """Returns a hook that stops training at the global step `last_step`.

    The chief stops as soon as it reaches that step; other workers wait until a checkpoint of it exists.

        >>> stop = et.experimental.make_stop_at_checkpoint_step_hook(estimator, last_step=10)
        >>> train_spec = et.TrainSpec(train_input_fn, hooks=[stop])

    Args:
      estimator: the `Estimator` being trained.
      last_step: the global step to stop at.
      wait_after_file_check_secs: seconds to wait before checking again, if the newest checkpoint is older.
    """
    if estimator.config.is_chief:
        return v1.train.StopAtStepHook(last_step=last_step)
    return _StopAtSavedStepHook(model_dirs.absolute(estimator.model_dir), last_step, wait_after_file_check_secs)


class _SeesGlobalStep(tf.compat.v1.train.SessionRunHook):
    """Fetches the global step with each training step; the value may be the one before or after the update."""

    def begin(self) -> None:
        self._global_step = v1.train.get_global_step()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return v1.train.SessionRunArgs(self._global_step)


class _StopHook(_SeesGlobalStep):
    """Stops training once `should_stop_fn()` is true. Adds nothing to the graph, hence nothing to checkpoints."""

    def __init__(
        self, should_stop_fn: Callable[[], bool], run_every_secs: float | None, run_every_steps: int | None
    ) -> None:
        if (run_every_secs is None) == (run_every_steps is None):
            raise ValueError(
                "One of run_every_secs and run_every_steps must be given, and the other be None; given: "
                f"run_every_secs={run_every_secs} and run_every_steps={run_every_steps}."
            )
        self._should_stop_fn = should_stop_fn
        self._timer = StepTimer(every_secs=run_every_secs, every_steps=run_every_steps)

    def next_look(self, global_step: int) -> float:
        return self._timer.next_look(global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if not self._timer.should_trigger_for_step(run_values.results + 1):
            return
        step = run_context.session.run(self._global_step)
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._should_stop_fn():
                log.info("Requesting early stopping at global step %d", step)
                run_context.request_stop()


class StopOnMetricHook(_StopHook):
    """Stops training once `condition` returns a reason for the evaluation metrics written so far.

    It reads them from event files and is no EvaluationListener, because it needs evaluations that its process does not
    make: in a cluster, those of the evaluator, and after a restart, those of the training before it.
    """

    def __init__(
        self,
        estimator: Estimator,
        metric_name: str,
        condition: Condition,
        eval_dir: str | None,
        run_every_secs: float | None,
        run_every_steps: int | None,
    ) -> None:
        _check_estimator(estimator)
        super().__init__(self._should_stop, run_every_secs, run_every_steps)
        self._is_checked_always = run_every_steps == 1
        self._estimator = estimator
        self._metric_name = metric_name
        self._condition = condition
        self._eval_dir = eval_dir
        self._is_checked = False
        self._last_step = math.inf

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._last_step < math.inf:
            self._last_step = run_values.results + 1
        super().after_run(run_context, run_values)

    def begin(self) -> None:
        super().begin()
        self._read_files: dict[str, int] | None = None

    def next_look(self, global_step: int) -> float:
        # An evaluation is written between calls, so whoever wants to see it at once need not look before their end.
        return math.inf if self._is_checked_always else super().next_look(global_step)

    def watch(self, metric_names: Mapping[str | None, Callable[[], list[str]]]) -> None:
        """Determines which evaluation to monitor and checks that it has the metric.

        Args:
          metric_names: dict from the evaluations' names to functions that return their metrics' names.
        """
        if self._eval_dir is None:
            if None not in metric_names and len(metric_names) > 1:
                raise ValueError(
                    f"Early stopping on {self._metric_name!r} needs eval_dir=estimator.eval_dir(name), with one of the "
                    f"evaluation names {list(metric_names)}."
                )
            self._eval_dir = self._estimator.eval_dir(None if None in metric_names else next(iter(metric_names)))
        for name, names in metric_names.items():
            if self._estimator.eval_dir(name) == self._eval_dir:
                self._check_metric(names())
                self._is_checked = True

    def leave_out_later_steps(self) -> None:
        """Leaves out evaluations of later steps than training is at: those of a training that was set back since."""
        self._last_step = 0

    def has_stopped(self, step: int) -> bool:
        """Returns whether evaluations until now have ended the training at a global step, which is resumed in vain."""
        return self._condition(self._values(read_eval_metrics(self._event_files()), step)) is not None

    def _event_files(self) -> str:
        return os.path.join(self._eval_dir or self._estimator.eval_dir(), "*.tfevents.*")

    def _values(self, results: Mapping[int, Mapping[str, float]], last_step: float) -> dict[int, float]:
        name = self._metric_name
        return {step: metrics[name] for step, metrics in results.items() if name in metrics and step <= last_step}

    def _should_stop(self) -> bool:
        pattern = self._event_files()
        files = {path: tf.io.gfile.stat(path).length for path in tf.io.gfile.glob(pattern)}
        if files == self._read_files:  # called as often as every step: read only changed files
            return False
        self._read_files = files
        results = read_eval_metrics(pattern)
        values = self._values(results, self._last_step)
        if results and not values and not self._is_checked:
            self._check_metric(set().union(*results.values()))
        reason = self._condition(values)
        if reason is not None:
            log.info(reason)
        return reason is not None

    def _check_metric(self, names: Iterable[str]) -> None:
        if self._metric_name not in names:
            given = Setting("monitor", "metric_name={!r}", self._metric_name)
            has = ", ".join(sorted(names))
            raise ArgumentError(given, f": the evaluation has no such metric; it has {has}")


class _StopAtSavedStepHook(_SeesGlobalStep):
    def __init__(self, model_dir: str, last_step: int, wait_secs: float) -> None:
        self._model_dir = model_dir
        self._last_step = last_step
        self._wait_secs = wait_secs

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if run_values.results + 1 < self._last_step:
            return
        checkpoint = tf.train.latest_checkpoint(self._model_dir)
        if checkpoint is not None and checkpoints.read_global_step(checkpoint) >= self._last_step:
            run_context.request_stop()
        else:
            time.sleep(self._wait_secs)


def _crosses(
    is_past: Callable[[float, float], bool], relation: str, metric_name: str, threshold: float, min_steps: int
) -> Condition:
    def condition(values: dict[int, float]) -> str | None:
        for step, value in values.items():
            if step >= min_steps and is_past(value, threshold):
                return (
                    f'At step {step}, metric "{metric_name}" has value {value} which is {relation} the configured '
                    f"threshold ({threshold}) for early stopping."
                )
        return None

    return condition


def _stands_still(
    is_better: Callable[[float, float], bool], change: str, metric_name: str, max_steps: int, min_steps: int
) -> Condition:
    def condition(values: dict[int, float]) -> str | None:
        best: tuple[int, float] | None = None
        for step, value in values.items():
            if step < min_steps:
                continue
            if best is None or is_better(value, best[1]) or (math.isnan(best[1]) and not math.isnan(value)):
                best = step, value
            age = step - best[0]
            if age >= max_steps:
                return (
                    f'No {change} in metric "{metric_name}" for {age} steps, which is greater than or equal to max '
                    f"steps ({max_steps}) configured for early stopping."
                )
        return None

    return condition


def _check_estimator(estimator: object) -> None:
    if not isinstance(estimator, Estimator):
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`. Got: {estimator!r}")
