"""train_and_evaluate: trains, and evaluates and exports checkpoints along the way, in one call."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterable
from typing import Any, NamedTuple, overload

import tensorflow as tf

from estimator_train._engine import checkpoints
from estimator_train._engine.cluster import tasks
from estimator_train._engine.cluster.completion import marking_completion
from estimator_train._engine.hooks import check_hooks, check_listeners
from estimator_train._engine.host import time_spent
from estimator_train._engine.keras_forms import check_input_fn, is_callback, is_model, refuses_keras_arguments, shown
from estimator_train._engine.model_fn import ModeKeys
from estimator_train._engine.session.timer import GridTimer, StepTimer
from estimator_train._engine.types import InputFn, Session, SessionRunHook
from estimator_train.estimator import Estimator
from estimator_train.exporter import Exporter
from estimator_train.hooks.early_stopping import StopOnMetricHook
from estimator_train.hooks.evaluation_listener import EvaluationListener

v1 = tf.compat.v1
log = tf.get_logger()

_HOOKS_MESSAGE = "All hooks must be `SessionRunHook` instances"


class _TrainSpec(NamedTuple):
    input_fn: InputFn
    max_steps: int | None
    hooks: tuple[tf.compat.v1.train.SessionRunHook, ...]
    saving_listeners: tuple[tf.compat.v1.train.CheckpointSaverListener, ...]


class TrainSpec(_TrainSpec):
    """How `train_and_evaluate` trains; the arguments are those of `Estimator.train`.

        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=1000, hooks=[et.ProgressHook()])

    Raises:
      TypeError: If `input_fn` is not callable, or a hook or listener has the wrong type.
      ValueError: If `max_steps` is not positive.
    """

    __slots__ = ()

    @refuses_keras_arguments
    def __new__(
        cls,
        input_fn: InputFn,
        max_steps: int | None = None,
        hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        saving_listeners: Iterable[tf.compat.v1.train.CheckpointSaverListener] | None = None,
    ) -> TrainSpec:
        check_input_fn(input_fn)
        _check_at_least(1, max_steps=max_steps)
        listeners = check_listeners(
            saving_listeners, v1.train.CheckpointSaverListener, "saving_listeners must be CheckpointSaverListeners"
        )
        return super().__new__(cls, input_fn, max_steps, check_hooks(hooks, _HOOKS_MESSAGE), listeners)


class _EvalSpec(NamedTuple):
    input_fn: InputFn
    steps: int | None
    name: str | None
    hooks: tuple[tf.compat.v1.train.SessionRunHook, ...]
    exporters: tuple[Exporter, ...]
    start_delay_secs: float
    throttle_secs: float
    every_steps: int | None
    listeners: tuple[EvaluationListener, ...]


class EvalSpec(_EvalSpec):
    """How and when `train_and_evaluate` evaluates and exports.

        >>> eval_spec = et.EvalSpec(eval_input_fn, steps=None, every_steps=500)

    Args:
      input_fn: as for `Estimator.evaluate`.
      steps: number of batches, by default 100 as in tf.estimator; None means until the data ends.
      name: name of the evaluation; its event files go to `estimator.eval_dir(name)`.
      hooks: list of `SessionRunHook`, for every evaluation.
      exporters: an `Exporter` or an iterable of them, called after every evaluation.
      start_delay_secs: seconds that an evaluator process waits before it starts; ignored in a single process.
      throttle_secs: minimum seconds between the starts of two evaluations; 0 evaluates every checkpoint.
      every_steps: evaluates at the multiples of this number of global steps; overrides `throttle_secs`. Checkpoints are
        then saved at these steps and at multiples of `RunConfig.save_checkpoints_steps`, but not by the seconds of
        `RunConfig.save_checkpoints_secs`.
      listeners: iterable of `EvaluationListener`, called after every evaluation and its exporters.

    Raises:
      TypeError: If `input_fn` is not callable, or a hook, an exporter, a listener or the name has the wrong type.
      ValueError: If a number is out of range, or exporters have no names or share one.
    """

    __slots__ = ()

    @refuses_keras_arguments
    def __new__(
        cls,
        input_fn: InputFn,
        steps: int | None = 100,
        name: str | None = None,
        hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        exporters: Exporter | Iterable[Exporter] | None = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
        *,
        every_steps: int | None = None,
        listeners: Iterable[EvaluationListener] | None = None,
    ) -> EvalSpec:
        check_input_fn(input_fn)
        _check_at_least(1, steps=steps, every_steps=every_steps)
        _check_at_least(0, start_delay_secs=start_delay_secs, throttle_secs=throttle_secs)
        if not isinstance(name, str | None):
            raise TypeError(f"`name` must be string, given: {name!r}")
        checked = check_hooks(hooks, _HOOKS_MESSAGE), _checked_exporters(exporters)
        heard_by = check_listeners(listeners, EvaluationListener, "listeners must be EvaluationListeners")
        return super().__new__(
            cls, input_fn, steps, name, *checked, start_delay_secs, throttle_secs, every_steps, heard_by
        )

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Copies need it, because the last two are keyword-only.
        return tuple(self)[:-2], {"every_steps": self.every_steps, "listeners": self.listeners}


# In a cluster it returns None. The hints use Any instead, so single-process callers may unpack the pair.
@overload
def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any], list[str | bytes | None]] | Any: ...
@overload
def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: list[EvalSpec]
) -> tuple[dict[str | None, dict[str, Any]], dict[str | None, list[str | bytes | None]]] | Any: ...
@refuses_keras_arguments
def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec | list[EvalSpec]) -> Any:
    """Trains, evaluating and exporting checkpoints along the way and the last one at the end.

    The last checkpoint is evaluated and exported however training ended, even if it had finished before the call. A
    training that resumes from a checkpoint evaluates and exports that one first.

        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=20)
        >>> eval_spec = et.EvalSpec(eval_input_fn, steps=None, throttle_secs=0)
        >>> metrics, exports = et.train_and_evaluate(estimator, train_spec, eval_spec)
        >>> int(metrics["global_step"])
        20

    Args:
      estimator: an `Estimator` whose RunConfig saves checkpoints.
      train_spec: a `TrainSpec`.
      eval_spec: an `EvalSpec`, or a list of them with different names.

    Returns:
      (metrics, exports) of the last checkpoint; exports is a list of what each exporter returned: a path as bytes, or
      None if it skipped the checkpoint. For a list of EvalSpecs, both are dicts keyed by the specs' names. In a
      cluster, None.

    Raises:
      TypeError: If an argument has the wrong type.
      ValueError: If evaluations or exporters share a name, the config saves no checkpoints, or an early-stopping hook
        watches a metric or an evaluation that does not exist.
    """
    specs = eval_spec if isinstance(eval_spec, list) else [eval_spec]
    _check_types(estimator, train_spec, specs)
    trainer = _saving_for(estimator, specs)
    if tasks.in_cluster(estimator.config):
        return _run_in_cluster(trainer, train_spec, specs)
    log.info(
        "Start train and evaluate loop. The evaluate will happen after every checkpoint. Checkpoint frequency is "
        "determined based on RunConfig arguments: save_checkpoints_steps %s or save_checkpoints_secs %s.",
        " and ".join(map(str, trainer.config._checkpoint_steps)) or None,
        trainer.config.save_checkpoints_secs,
    )
    evaluations = [_Evaluation(estimator, spec) for spec in specs]
    listener = _EvaluateCheckpoints(estimator, evaluations, train_spec)
    listening = train_spec._replace(saving_listeners=(*train_spec.saving_listeners, listener))
    with marking_completion(estimator._config):
        trainer.train(**listening._asdict())
    for evaluation in evaluations:
        evaluation.run(estimator._newest_checkpoint(), is_the_final_export=True)
    if not isinstance(eval_spec, list):
        return evaluations[0].metrics, evaluations[0].exports
    return (
        {evaluation.spec.name: evaluation.metrics for evaluation in evaluations},
        {evaluation.spec.name: evaluation.exports for evaluation in evaluations},
    )


def _run_in_cluster(estimator: Estimator, train_spec: TrainSpec, specs: list[EvalSpec]) -> None:
    evaluations = [_Evaluation(estimator, spec) for spec in specs]

    def train(hooks: list[SessionRunHook]) -> None:
        _watch(evaluations, train_spec.hooks)
        if estimator.config.is_chief:
            log.info("Checkpoints are evaluated and exported by the task of type evaluator, if there is one.")
        estimator.train(**train_spec._replace(hooks=(*train_spec.hooks, *hooks))._asdict())

    def evaluate(has_ended: bool) -> bool:
        # The chief writes this file last; until then, its first checkpoint may be half-written.
        is_saved = tf.io.gfile.exists(os.path.join(estimator.model_dir, "checkpoint"))
        if not is_saved and not has_ended:
            return False
        checkpoint = estimator._newest_checkpoint()
        if checkpoint is None:
            return has_ended
        return _evaluate_while_training(evaluations, checkpoint, train_spec.max_steps, has_ended)

    tasks.run_task(estimator._config, train, evaluate, min(spec.start_delay_secs for spec in specs))


def _evaluate_while_training(
    evaluations: list[_Evaluation], checkpoint: str, max_steps: int | None, has_ended: bool
) -> bool:
    """Runs the evaluations that are due for a checkpoint; returns whether it is the last one of a training."""
    try:
        step = checkpoints.read_global_step(checkpoint)
        is_last = has_ended or (max_steps is not None and step >= max_steps)
        for evaluation in evaluations:
            if is_last:
                evaluation.run(checkpoint, is_the_final_export=True)
            elif evaluation.checkpoint != checkpoint and evaluation.is_due(step):
                evaluation.run(checkpoint, is_the_final_export=False)
        return is_last
    except (ValueError, tf.errors.OpError):
        if tf.io.gfile.exists(f"{checkpoint}.index"):
            raise
        log.warning("Training deleted checkpoint %s before it was evaluated.", checkpoint)
        return False


class _Evaluation:
    """Evaluates and exports each checkpoint once for an EvalSpec, and decides when an evaluation is due."""

    def __init__(self, estimator: Estimator, spec: EvalSpec) -> None:
        self.spec = spec
        self.listeners = list(spec.listeners)
        self.metrics: dict[str, Any] = {}
        self.exports: list[str | bytes | None] = []
        self._estimator = estimator
        self.checkpoint: str | None = None
        self._stamp: checkpoints.Stamp | None = None
        self._skipped: int | None = None
        self._timer = GridTimer(spec.every_steps) if spec.every_steps else StepTimer(every_secs=spec.throttle_secs)

    def start(self, checkpoint: str | None, global_step: int) -> None:
        """Evaluates the checkpoint from which training resumes, in case a kill prevented its evaluation."""
        if global_step > 0:
            self.run(checkpoint, is_the_final_export=False)
        if self.spec.every_steps is not None:  # otherwise the first checkpoint is due
            self._timer.update_last_triggered_step(global_step)

    def is_due(self, global_step: int) -> bool:
        """Returns whether to evaluate now; if so, the wait for the next evaluation starts here."""
        is_due = self._timer.should_trigger_for_step(global_step)
        if is_due:
            self._timer.update_last_triggered_step(global_step)
        elif self.spec.every_steps is None and global_step != self._skipped:
            self._skipped = global_step
            log.info("Skip the current checkpoint eval due to throttle secs (%s secs).", self.spec.throttle_secs)
        return is_due

    def run(self, checkpoint: str | None, is_the_final_export: bool) -> None:
        """Evaluates `checkpoint` unless already done, calls exporters that have not exported it, and then listeners.

        There is none, and the initial weights are evaluated, if a user's CheckpointSaverHook saves elsewhere.
        """
        estimator, spec = self._estimator, self.spec
        last_heard = self.checkpoint, repr(self.metrics)  # which may have arrays
        if checkpoint != self.checkpoint or checkpoints.stamp(checkpoint) != self._stamp:  # callbacks may save it again
            self.metrics = estimator.evaluate(spec.input_fn, spec.steps, spec.hooks, checkpoint, spec.name)
            self.exports = [None] * len(spec.exporters)
            self.checkpoint, self._stamp = checkpoint, checkpoints.stamp(checkpoint)
        for index, exporter in enumerate(spec.exporters):
            if self.exports[index] is None:
                directory = os.path.join(estimator.model_dir, "export", exporter.name)
                self.exports[index] = exporter.export(
                    estimator=estimator,
                    export_path=directory,
                    checkpoint_path=checkpoint,  # type: ignore[arg-type]  # see above
                    eval_result=self.metrics,
                    is_the_final_export=is_the_final_export,
                )
        # At the end, callbacks have saved the last checkpoint again, and may have changed its metrics.
        if is_the_final_export and last_heard == (checkpoint, repr(self.metrics)):
            return
        for listener in self.listeners:
            listener.after_evaluation(
                estimator=estimator,
                checkpoint_path=checkpoint,  # type: ignore[arg-type]  # see above
                eval_result=self.metrics,
                is_final=is_the_final_export,
            )

    def metric_names(self) -> list[str]:
        """Returns the names of the evaluation's metrics, without running it."""
        spec, checkpoint = self.spec, self._estimator._newest_checkpoint()
        with contextlib.closing(self._estimator._prepare(ModeKeys.EVAL, spec.input_fn, checkpoint, spec.steps)) as run:
            return sorted(run.spec.eval_metric_ops)


class _HearsOthers(EvaluationListener):
    """Passes a hook the evaluations of an EvalSpec but the first, whose name its metrics get as a prefix."""

    def __init__(self, hook: EvaluationListener, name: str | None) -> None:
        self._hook = hook
        self._name = name

    def after_evaluation(
        self, estimator: Estimator, checkpoint_path: str, eval_result: dict[str, Any], is_final: bool
    ) -> None:
        named = {
            name if name == "global_step" else f"{self._name}_{name}": value for name, value in eval_result.items()
        }
        self._hook.after_evaluation(
            estimator=estimator, checkpoint_path=checkpoint_path, eval_result=named, is_final=is_final
        )


class _EvaluateCheckpoints(tf.compat.v1.train.CheckpointSaverListener):
    """Evaluates checkpoints during training, except at step 0 and at `max_steps`, which is evaluated afterwards.

    If a hook listens, as a CallbacksHook does, the checkpoint at `max_steps` is evaluated here, too. Before the first
    step, early-stopping hooks get the names of the metrics from here.
    """

    def __init__(self, estimator: Estimator, evaluations: list[_Evaluation], train_spec: TrainSpec) -> None:
        self._estimator = estimator
        self._evaluations = evaluations
        self._train_spec = train_spec
        self._listening_hooks = [hook for hook in train_spec.hooks if isinstance(hook, EvaluationListener)]
        self._started = False

    def after_save(self, session: Session, global_step_value: int) -> None:
        if not self._started:
            self._start(global_step_value)
            return
        is_last = global_step_value == self._train_spec.max_steps
        if is_last and not self._listening_hooks:
            return
        due = [evaluation for evaluation in self._evaluations if is_last or evaluation.is_due(global_step_value)]
        self._evaluate(due, tf.train.latest_checkpoint(self._estimator._config.model_dir), global_step_value)

    def _evaluate(self, due: list[_Evaluation], path: str | None, global_step_value: int) -> None:
        # The user's CheckpointSaverHook may save to another directory.
        is_current = path is not None and checkpoints.read_global_step(path) == global_step_value
        model = self._estimator._model
        with time_spent.counted_as(time_spent.EVALUATION), model.just_saved(path if is_current else None):
            for evaluation in due:
                evaluation.run(path, is_the_final_export=False)

    def end(self, session: Session, global_step_value: int) -> None:
        """Evaluates the end of an epoch that a callback has cut short, as fit does."""
        path = self._estimator._newest_checkpoint()
        evaluated = [evaluation.checkpoint for evaluation in self._evaluations]
        is_last = global_step_value == self._train_spec.max_steps
        is_over = is_last or not getattr(session, "is_interrupted", False)
        if self._started and is_over and self._listening_hooks and path not in evaluated:
            self._evaluate(self._evaluations, path, global_step_value)

    def _start(self, global_step: int) -> None:
        self._started = True
        with time_spent.counted_as(time_spent.EVALUATION):
            _watch(self._evaluations, self._train_spec.hooks)
            for evaluation in self._evaluations:
                evaluation.start(self._estimator._newest_checkpoint(), global_step)
        first, *others = self._evaluations
        for hook in self._listening_hooks:
            first.listeners.append(hook)
            for other in others:
                other.listeners.append(_HearsOthers(hook, other.spec.name))


def _watch(evaluations: list[_Evaluation], hooks: Iterable[SessionRunHook]) -> None:
    """Gives the early-stopping hooks the evaluations and metrics that they can watch."""
    metric_names = {evaluation.spec.name: evaluation.metric_names for evaluation in evaluations}
    for hook in hooks:
        if isinstance(hook, StopOnMetricHook):
            hook.watch(metric_names)


def _saving_for(estimator: Estimator, specs: list[EvalSpec]) -> Estimator:
    """Returns `estimator`, configured to save a checkpoint at each step where one of `specs` needs an evaluation."""
    config = estimator._config
    every = [spec.every_steps for spec in specs if spec.every_steps is not None]
    if not every:
        return estimator
    first, *others = filter(None, (config.save_checkpoints_steps, *every))
    estimator = copy.copy(estimator)
    estimator._config = config.replace(save_checkpoints_steps=first)
    estimator._config._other_checkpoint_steps = tuple(others)
    return estimator


def _check_types(estimator: object, train_spec: object, specs: list[EvalSpec]) -> None:
    if not isinstance(estimator, Estimator):
        way = "; pass what et.model_to_estimator returns for it" if is_model(estimator) else ""
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`. Got: {shown(estimator)}{way}")
    if not isinstance(train_spec, TrainSpec):
        raise TypeError(f"`train_spec` must have type `tf.estimator.TrainSpec`. Got: {shown(train_spec)}")
    if not specs:
        raise ValueError("eval_spec must contain at least one EvalSpec, given an empty list.")
    for spec in specs:
        if not isinstance(spec, EvalSpec):
            raise TypeError(
                f"`eval_spec` must have type `tf.estimator.EvalSpec`, or be a list of them. Got: {shown(spec)}"
            )
    names = [spec.name for spec in specs]
    if len(set(names)) < len(names):
        raise ValueError(f"EvalSpecs must have different names, given: {names}")
    _check_names([exporter for spec in specs for exporter in spec.exporters])


def _checked_exporters(exporters: Exporter | Iterable[Exporter] | None) -> tuple[Exporter, ...]:
    if exporters is None:
        return ()
    given = tuple(exporters) if isinstance(exporters, Iterable) else (exporters,)
    if not all(isinstance(exporter, Exporter) for exporter in given):
        way = "; et.BestCheckpointExporter() keeps the best checkpoint" if any(map(is_callback, given)) else ""
        raise TypeError(
            f"`exporters` must be an Exporter, an iterable of Exporter, or `None`, found {exporters!r}{way}."
        )
    _check_names(given)
    return given


def _check_names(exporters: Iterable[Exporter]) -> None:
    names = [exporter.name for exporter in exporters]
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"An Exporter cannot have a name that is `None` or empty. Given: {names}")
    if len(set(names)) < len(names):
        raise ValueError(f"`exporters` must have unique names. Given: {names}")


def _check_at_least(least: int, **values: float | None) -> None:
    for name, value in values.items():
        if value is not None and value < least:
            raise ValueError(f"Must specify {name} {['>= 0', '> 0'][least]}, given: {value}")
