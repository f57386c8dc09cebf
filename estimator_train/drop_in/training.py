"""The old module `training`: the executor behind train_and_evaluate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_train.estimator import Estimator
from estimator_train.exporter import Exporter
from estimator_train.training import EvalSpec, TrainSpec, train_and_evaluate


class _EvalStatus:
    """How an evaluation ended."""

    EVALUATED = "evaluated"
    MISSING_CHECKPOINT = "missing checkpoint"
    NO_NEW_CHECKPOINT = "no new checkpoint"


class _EvalResult(NamedTuple):
    """How an evaluation ended, and the metrics and the checkpoint of one that took place."""

    status: str
    metrics: dict[str, Any] | None = None
    checkpoint_path: str | None = None


class _ContinuousEvalListener:
    """Is called around each evaluation of an evaluator; one that returns False ends it."""

    def before_eval(self) -> bool:
        """Called before an evaluation, which is left out after False."""
        return True

    def after_eval(self, eval_result: _EvalResult) -> bool:
        """Called after an evaluation, whose status is "evaluated"."""
        del eval_result
        return True


class _TrainingExecutor:
    """`train_and_evaluate` as an object: `run` does the work of this process's task, whatever it is.

    Args:
      estimator, train_spec, eval_spec: as for `train_and_evaluate`.
      train_hooks: iterable of further `SessionRunHook`s of the training.
      continuous_eval_listener: a `_ContinuousEvalListener`.

    Raises:
      TypeError: an argument of another type.
    """

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
        """The Estimator."""
        return self._estimator

    def run(self) -> Any:
        """Trains, evaluates and exports; returns what `train_and_evaluate` does, or None where a listener ended it."""
        spec, listener = self._eval_spec, self._listener
        if listener is None:
            return train_and_evaluate(self._estimator, self._train_spec, spec)
        hooks, exporters = (*spec.hooks, _BeforeEval(listener)), (*spec.exporters, _AfterEval(listener))
        spec = spec._replace(hooks=hooks, exporters=exporters)
        try:
            results = train_and_evaluate(self._estimator, self._train_spec, spec)
        except _EndedByListener:
            return None
        if results is None:  # in a cluster
            return None
        metrics, exports = results
        return metrics, exports[:-1]


def _assert_eval_spec(eval_spec: EvalSpec) -> None:
    """Raises TypeError for what is no EvalSpec."""
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError(f"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: {type(eval_spec)}")


class _EndedByListener(Exception):
    """A `_ContinuousEvalListener` has returned False."""


class _BeforeEval(tf.compat.v1.train.SessionRunHook):
    def __init__(self, listener):
        self._listener = listener

    def begin(self):
        if not self._listener.before_eval():
            raise _EndedByListener


class _AfterEval(Exporter):
    """An exporter, because exporters are given the metrics."""

    name = "continuous_eval_listener"

    def __init__(self, listener):
        self._listener = listener

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        result = _EvalResult(_EvalStatus.EVALUATED, eval_result, checkpoint_path)
        if not self._listener.after_eval(result):
            raise _EndedByListener
        return checkpoint_path  # None would have it called once more for the last checkpoint
