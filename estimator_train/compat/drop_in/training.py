"""The old modules `training`, with its executor, and `tensorflow.python.distribute.estimator_training`."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_train import training
from estimator_train.estimator import Estimator
from estimator_train.hooks import EvaluationListener
from estimator_train.run_config import RunConfig
from estimator_train.training import EvalSpec, TrainSpec


def should_run_distribute_coordinator(config: RunConfig) -> bool:
    """Returns whether a strategy in `config` trains in a cluster that TF_CONFIG or the strategy names."""
    return getattr(config, "_distribute_coordinator_mode", None) is not None


def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec, executor_cls: type | None = None
) -> Any:
    """Calls `estimator_train.train_and_evaluate`, which needs no executor."""
    return training.train_and_evaluate(estimator, train_spec, eval_spec)


class _EvalStatus:
    """The outcomes of an evaluation."""

    EVALUATED = "evaluated"
    MISSING_CHECKPOINT = "missing checkpoint"
    NO_NEW_CHECKPOINT = "no new checkpoint"


class _EvalResult(NamedTuple):
    """The outcome of an evaluation, with its metrics and checkpoint if it took place."""

    status: str
    metrics: dict[str, Any] | None = None
    checkpoint_path: str | None = None


class _ContinuousEvalListener:
    """Called before and after each evaluation of an evaluator; a method that returns False stops it."""

    def before_eval(self) -> bool:
        """Called before an evaluation, which is skipped if this returns False."""
        return True

    def after_eval(self, eval_result: _EvalResult) -> bool:
        """Called after an evaluation, whose status is "evaluated"."""
        return True


class _TrainingExecutor:
    """Wraps `train_and_evaluate` in an object; `run` does the work of this process's task."""

    def __init__(
        self,
        estimator: Estimator,
        train_spec: TrainSpec,
        eval_spec: EvalSpec,
        train_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        continuous_eval_listener: _ContinuousEvalListener | None = None,
    ) -> None:
        if not isinstance(train_spec, TrainSpec):
            raise TypeError(f"`train_spec` must have type `tf.estimator.TrainSpec`. Got: {type(train_spec)}")
        _assert_eval_spec(eval_spec)
        if not isinstance(continuous_eval_listener, _ContinuousEvalListener | None):
            raise TypeError(
                "`continuous_eval_listener` must have type `_ContinuousEvalListener`. "
                f"Got: {type(continuous_eval_listener)}"
            )
        self._estimator = estimator
        self._train_spec = train_spec._replace(hooks=(*train_spec.hooks, *(train_hooks or ())))
        self._eval_spec = eval_spec
        self._listener = continuous_eval_listener

    @property
    def estimator(self) -> Estimator:
        return self._estimator

    def run(self) -> Any:
        """Returns the result of `train_and_evaluate`, or None if a listener stopped it."""
        spec, listener = self._eval_spec, self._listener
        if listener is None:
            return training.train_and_evaluate(self._estimator, self._train_spec, spec)
        hooks, listeners = (*spec.hooks, _BeforeEval(listener)), (*spec.listeners, _AfterEval(listener))
        spec = spec._replace(hooks=hooks, listeners=listeners)
        try:
            return training.train_and_evaluate(self._estimator, self._train_spec, spec)
        except _EndedByListener:
            return None


def _assert_eval_spec(eval_spec: EvalSpec) -> None:
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError(f"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: {type(eval_spec)}")


class _EndedByListener(Exception):
    """Raised when a `_ContinuousEvalListener` returns False."""


class _BeforeEval(tf.compat.v1.train.SessionRunHook):
    def __init__(self, listener):
        self._listener = listener

    def begin(self):
        if not self._listener.before_eval():
            raise _EndedByListener


class _AfterEval(EvaluationListener):
    def __init__(self, listener):
        self._listener = listener

    def after_evaluation(self, estimator, checkpoint_path, eval_result, is_final):
        result = _EvalResult(_EvalStatus.EVALUATED, eval_result, checkpoint_path)
        if not self._listener.after_eval(result):
            raise _EndedByListener
