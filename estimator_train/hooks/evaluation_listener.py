"""EvaluationListener: the base class of objects that hear of each evaluation of train_and_evaluate."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from estimator_train.estimator import Estimator  # loaded with the first Estimator, not the first hook


class EvaluationListener(abc.ABC):
    """Base class of listeners, which `train_and_evaluate` calls after each evaluation of an `EvalSpec`.

        >>> class LossPrinter(et.EvaluationListener):
        ...     def after_evaluation(self, estimator, checkpoint_path, eval_result, is_final):
        ...         print(checkpoint_path, eval_result["loss"])
        >>> eval_spec = et.EvalSpec(eval_input_fn, steps=None, listeners=[LossPrinter()])

    The process that evaluates calls it: the one that trains or, in a cluster, the evaluator.

    A hook in the hooks of a `TrainSpec` that derives from this class, too, needs no place among the listeners: in a
    process that trains and evaluates, it hears of every EvalSpec from the first step on, and of the last checkpoint
    before its own `end`. The metrics of all EvalSpecs but the first have their spec's name and `_` before their own.
    In a cluster, such a hook hears nothing.
    """

    @abc.abstractmethod
    def after_evaluation(
        self, estimator: Estimator, checkpoint_path: str, eval_result: dict[str, Any], is_final: bool
    ) -> None:
        """Called with keyword arguments, after the exporters. An error that it raises ends the training.

        Args:
          estimator: the `Estimator` that has evaluated.
          checkpoint_path: path prefix of the checkpoint.
          eval_result: the checkpoint's metrics, as returned by `Estimator.evaluate`.
          is_final: whether training has ended with this checkpoint. If that becomes known only after the evaluation,
            the listener is not called again, unless callbacks have changed the checkpoint's metrics meanwhile.
        """
