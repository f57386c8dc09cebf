"""The old module `canned.head`: the heads of TensorFlow 1, which derive from `_Head`."""

import abc
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_train._engine.argument_names import bind, with_defaults
from estimator_train._engine.graph.optimizers import with_update_ops
from estimator_train._engine.model_fn import EstimatorSpec, ModeKeys, metric_pair
from estimator_train._engine.types import FeatureColumn
from estimator_train.canned.api_versions import BinaryClassHeadV1
from estimator_train.compat.drop_in.tpu import TPUEstimatorSpec
from estimator_train.heads import Head, MultiClassHead, RegressionHead, checks
from estimator_train.heads.keys import MetricKeys, PredictionKeys

v1 = tf.compat.v1
_SUM = v1.losses.Reduction.SUM


class LossSpec(NamedTuple):
    """The loss of a batch: the scalar, and each example's loss, weight and preprocessed label."""

    training_loss: tf.Tensor
    unreduced_loss: tf.Tensor
    weights: tf.Tensor | float
    processed_labels: tf.Tensor


class _Head(abc.ABC):
    """Base class of heads, which override either `create_estimator_spec` or `_create_tpu_estimator_spec`."""

    @property
    @abc.abstractmethod
    def name(self) -> str | None: ...

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int: ...

    @abc.abstractmethod
    def create_loss(self, features: dict[str, Any], mode: str, logits: tf.Tensor, labels: Any) -> Any:
        """Returns a `LossSpec`."""

    def create_estimator_spec(
        self,
        features: dict[str, Any],
        mode: str,
        logits: tf.Tensor,
        labels: Any = None,
        optimizer: tf.compat.v1.train.Optimizer | None = None,
        train_op_fn: Callable[[tf.Tensor], tf.Operation | tf.Tensor] | None = None,
        regularization_losses: Sequence[tf.Tensor] | None = None,
        update_ops: Sequence[tf.Operation | tf.Tensor] | None = None,
    ) -> EstimatorSpec:
        """Does what `Head.create_estimator_spec` does; ignores `update_ops`, because those of UPDATE_OPS run anyway."""
        return self._create_tpu_estimator_spec(
            features, mode, logits, labels, optimizer, train_op_fn, regularization_losses
        ).as_estimator_spec()

    def _create_tpu_estimator_spec(
        self, features, mode, logits, labels=None, optimizer=None, train_op_fn=None, regularization_losses=None
    ):
        raise NotImplementedError(f"{type(self).__name__} has neither create_estimator_spec nor this method.")


# Canned estimators accept subclasses of Head only.
Head.register(_Head)  # type: ignore[type-abstract]


class _HeadOf(_Head):
    """Wraps a `SingleHead` as a v1 head, with a LossSpec as its loss and (value, update op) pairs as its metrics.

    Keeps its arguments under private names, as tf.estimator's heads did.
    """

    _kind: Callable[..., Any]
    _loss_reduction: str
    __signature__: inspect.Signature

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        arguments = bind(self.__signature__, *args, **kwargs)
        self._head = self._kind(**arguments)
        vars(self).update({f"_{name}": value for name, value in arguments.items()})

    @property
    def name(self) -> str | None:
        return self._head.name

    @property
    def logits_dimension(self) -> int:
        return self._head.logits_dimension

    def create_loss(self, features: dict[str, Any], mode: str, logits: tf.Tensor, labels: Any) -> LossSpec:
        labels, _, losses, weights = self._head._weigh(labels, logits, features)
        reduction = checks.v1_reduction(self._loss_reduction)
        loss = v1.losses.compute_weighted_loss(losses, weights, reduction=reduction)
        return LossSpec(loss, losses, weights, labels)

    def _create_tpu_estimator_spec(
        self, features, mode, logits, labels=None, optimizer=None, train_op_fn=None, regularization_losses=None
    ):
        with v1.name_scope(self.name, "head"):
            predictions = self._head.predictions(logits)
            if mode == ModeKeys.PREDICT:
                return TPUEstimatorSpec(mode, predictions, export_outputs=self._head._serving_outputs(predictions))
            loss, losses, weights, labels = self.create_loss(features, mode, logits, labels)
            total, regularization = loss, None
            if regularization_losses:
                regularization = tf.add_n(regularization_losses)
                total = loss + regularization
            if mode == ModeKeys.EVAL:
                arguments = (labels, weights, losses, regularization)
                metrics = functools.partial(self._eval_metric_ops, *arguments, **predictions)
                return TPUEstimatorSpec(mode, predictions, total, eval_metrics=(metrics, []))
            step = _append_update_ops(_minimize(total, optimizer, train_op_fn))
        self._head._summarize(MetricKeys.LOSS, total)
        if regularization is not None:
            self._head._summarize(MetricKeys.LOSS_REGULARIZATION, regularization)
        if self._loss_reduction == _SUM:
            self._head._summarize(MetricKeys.LOSS_MEAN, loss / tf.reduce_sum(weights * tf.ones_like(losses)))
        return TPUEstimatorSpec(mode, predictions, total, step)

    def _eval_metric_ops(
        self, labels, weights, unreduced_loss, regularization_loss, predicted_value=None, **predictions
    ):
        """Returns the metrics; `predictions` are by `PredictionKeys`, and `predicted_value` is that of a regression."""
        predictions.setdefault(PredictionKeys.PREDICTIONS, predicted_value)
        regularization = [loss for loss in (regularization_loss,) if loss is not None]
        metrics = self._head.metrics(regularization)
        self._head._update(metrics, labels, predictions, (unreduced_loss, weights), regularization)
        return {name: metric_pair(name, metric) for name, metric in metrics.items()}


class _BinaryLogisticHeadWithSigmoidCrossEntropyLoss(_HeadOf):
    """The v1 version of `BinaryClassHead`; takes its arguments, but loss_reduction defaults to "weighted_sum"."""

    _kind = BinaryClassHeadV1
    __signature__ = with_defaults(BinaryClassHeadV1, loss_reduction=_SUM)


class _MultiClassHeadWithSoftmaxCrossEntropyLoss(_HeadOf):
    """The v1 version of `MultiClassHead`; takes its arguments, but loss_reduction defaults to "weighted_sum"."""

    _kind = MultiClassHead
    __signature__ = with_defaults(MultiClassHead, loss_reduction=_SUM)


class _RegressionHeadWithMeanSquaredErrorLoss(_HeadOf):
    """The v1 version of `RegressionHead`; takes its arguments, but loss_reduction defaults to "weighted_sum"."""

    _kind = RegressionHead
    __signature__ = with_defaults(RegressionHead, loss_reduction=_SUM)


def _regression_head(
    weight_column: str | FeatureColumn | None = None,
    label_dimension: int = 1,
    loss_reduction: str = _SUM,
    loss_fn: Callable[..., tf.Tensor] | None = None,
    inverse_link_fn: Callable[[tf.Tensor], tf.Tensor] | None = None,
    name: str | None = None,
) -> _RegressionHeadWithMeanSquaredErrorLoss:
    """Returns the head of a regressor. The class has the first two arguments in the opposite order."""
    return _RegressionHeadWithMeanSquaredErrorLoss(
        label_dimension, weight_column, loss_reduction, loss_fn, inverse_link_fn, name
    )


def _binary_logistic_or_multi_class_head(
    n_classes: int,
    weight_column: str | FeatureColumn | None,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str,
) -> _HeadOf:
    """Returns the head of a classifier: the binary one for two classes, otherwise the multi-class one."""
    if n_classes == 2:
        return _BinaryLogisticHeadWithSigmoidCrossEntropyLoss(weight_column, None, label_vocabulary, loss_reduction)
    return _MultiClassHeadWithSoftmaxCrossEntropyLoss(n_classes, weight_column, label_vocabulary, loss_reduction)


def _summary_key(head_name: str | None, val: str) -> str:
    return f"{val}/{head_name}" if head_name else val


def _append_update_ops(train_op: tf.Operation | tf.Tensor) -> tf.Operation | tf.Tensor:
    """Returns `train_op` grouped with the ops of the collection UPDATE_OPS."""
    return with_update_ops(train_op, v1.get_collection(v1.GraphKeys.UPDATE_OPS) or None)


def _minimize(loss, optimizer, train_op_fn):
    if optimizer is None and train_op_fn is None:
        raise ValueError("train_op_fn and optimizer cannot both be None.")
    if optimizer is None:
        return train_op_fn(loss)
    if train_op_fn is None:
        return optimizer.minimize(loss, v1.train.get_global_step())
    raise ValueError("train_op_fn and optimizer cannot both be set.")
