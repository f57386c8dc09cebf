"""SingleHead: the base of all heads with a single output: weighted losses, metric keys and metric updates."""

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.model_fn import ModeKeys
from estimator_train._engine.types import FeatureColumn
from estimator_train.heads import checks
from estimator_train.heads.head import Head, Predictions
from estimator_train.heads.keys import MetricKeys

v1 = tf.compat.v1

# A function (labels, predictions) that returns the arguments of a metric's update_state, without the weights.
UpdateArguments: TypeAlias = Callable[[Any, Predictions], tuple[tf.Tensor, ...]]
# By the metrics' keys: the class of a metric, and the arguments of its updates.
MetricFactories: TypeAlias = dict[str, tuple[Callable[..., keras.metrics.Metric], UpdateArguments]]


def labels_and(*keys: str) -> UpdateArguments:
    """Returns a function that gives a metric the labels, and the predictions with these keys."""
    return lambda labels, predictions: (labels, *(predictions[key] for key in keys))


def only(key: str) -> UpdateArguments:
    """Returns a function that gives a metric the predictions with this key alone."""
    return lambda labels, predictions: (predictions[key],)


class SingleHead(Head):
    """Base class of heads with one output. Subclasses define labels, losses, predictions and metrics.

    Raises ValueError if an argument is invalid.

    Args:
      logits_dimension: size of the logits' last dimension.
      loss_dimension: size of the last dimension of the examples' losses.
      weight_column: key in the features, or `tf.feature_column.numeric_column`, of the examples' weights; None means 1
        for all.
      loss_reduction: how to reduce the weighted losses: "sum", or "sum_over_batch_size", which divides the sum by the
        number of losses whatever their weights; or a value of `tf.compat.v1.losses.Reduction`, which defines it.
      loss_fn: function of labels and logits, and optionally features and loss_reduction, that returns the unweighted,
        unreduced losses [D0, D1, ... DN, loss_dimension]; None uses the head's own.
      name: suffix of the metrics' keys, after a slash.
    """

    def __init__(
        self,
        logits_dimension: int,
        loss_dimension: int,
        weight_column: str | FeatureColumn | None,
        loss_reduction: str,
        loss_fn: Callable[..., tf.Tensor] | None,
        name: str | None,
    ) -> None:
        self._reduction = checks.v1_reduction(loss_reduction)
        if loss_fn:
            checks.check_loss_fn(loss_fn)
        self._logits_dimension = logits_dimension
        self._loss_dimension = loss_dimension
        self._weight_column = weight_column
        self._loss_reduction = loss_reduction
        self._loss_fn = loss_fn
        self._name = name

    @property
    def name(self) -> str | None:
        return self._name

    @property
    def logits_dimension(self) -> int:
        return self._logits_dimension

    @property
    def loss_reduction(self) -> str:
        return self._loss_reduction

    def loss(
        self,
        labels: Any,
        logits: tf.Tensor,
        features: dict[str, Any] | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[tf.Tensor] | None = None,
    ) -> tf.Tensor:
        with tf.name_scope("losses"):
            _, _, losses, weights = self._weigh(labels, logits, features)
            loss = v1.losses.compute_weighted_loss(losses, weights, loss_collection=None, reduction=self._reduction)
            if mode == ModeKeys.TRAIN and self._loss_reduction == v1.losses.Reduction.SUM:  # as tf.compat.v1.estimator
                self._summarize(MetricKeys.LOSS_MEAN, loss / tf.reduce_sum(weights * tf.ones_like(losses)))
            return tf.add_n([loss, *(regularization_losses or [])])

    def predictions(self, logits: tf.Tensor, keys: Iterable[str] | None = None) -> dict[str, tf.Tensor]:
        logits = checks.check_logits(logits, self._logits_dimension)
        with tf.name_scope("predictions"):
            predictions = self._predictions(logits)
        return checks.chosen_predictions(predictions, keys)

    def metrics(self, regularization_losses: Sequence[tf.Tensor] | None = None) -> dict[str, keras.metrics.Metric]:
        metrics = {key: make(name=key) for key, (make, _) in self._metrics().items()}
        metrics[MetricKeys.LOSS_MEAN] = keras.metrics.Mean(name=MetricKeys.LOSS_MEAN)
        if regularization_losses:
            metrics[MetricKeys.LOSS_REGULARIZATION] = keras.metrics.Mean(name=MetricKeys.LOSS_REGULARIZATION)
        return {self._summary_key(key): metric for key, metric in metrics.items()}

    def update_metrics(
        self,
        eval_metrics: dict[str, keras.metrics.Metric],
        features: dict[str, Any],
        logits: tf.Tensor,
        labels: Any,
        regularization_losses: Sequence[tf.Tensor] | None = None,
    ) -> dict[str, keras.metrics.Metric]:
        labels, logits, losses, weights = self._weigh(labels, logits, features)
        return self._update(eval_metrics, labels, self._predictions(logits), (losses, weights), regularization_losses)

    def _update(
        self,
        eval_metrics: dict[str, keras.metrics.Metric],
        labels: Any,
        predictions: Predictions,
        weighed: tuple[tf.Tensor, tf.Tensor | float],
        regularization_losses: Sequence[tf.Tensor] | None,
    ) -> dict[str, keras.metrics.Metric]:
        """Does `update_metrics`, given labels, predictions, and the pair `weighed` of losses and weights."""
        losses, weights = weighed
        values = {key: give(labels, predictions) for key, (_, give) in self._metrics().items()}
        values[MetricKeys.LOSS_MEAN] = (losses,)
        for key, arguments in values.items():
            eval_metrics[self._summary_key(key)].update_state(*arguments, sample_weight=weights)
        if regularization_losses:
            metric = eval_metrics[self._summary_key(MetricKeys.LOSS_REGULARIZATION)]
            metric.update_state(tf.add_n(regularization_losses))
        return eval_metrics

    @abc.abstractmethod
    def _labels(self, labels: Any, logits: tf.Tensor) -> Any:
        """Returns `labels`, checked, in the form that the losses and metrics need."""

    @abc.abstractmethod
    def _losses(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        """Returns the losses [D0, D1, ... DN, loss_dimension]."""

    @abc.abstractmethod
    def _predictions(self, logits: tf.Tensor) -> Predictions:
        """Returns a dict of all predictions."""

    @abc.abstractmethod
    def _metrics(self) -> MetricFactories:
        """Returns the metrics that this head adds to the common ones."""

    def _weigh(
        self, labels: Any, logits: tf.Tensor, features: dict[str, Any] | None
    ) -> tuple[Any, tf.Tensor, tf.Tensor, tf.Tensor | float]:
        """Returns checked labels, checked logits, losses and weights."""
        logits = checks.check_logits(logits, self._logits_dimension)
        labels = self._labels(labels, logits)
        return labels, logits, *self._losses_and_weights(labels, logits, features)

    def _losses_and_weights(
        self, labels: Any, logits: tf.Tensor, features: dict[str, Any] | None
    ) -> tuple[tf.Tensor, tf.Tensor | float]:
        """Returns the losses of the checked `labels` and `logits`, and their weights."""
        if self._loss_fn:
            offered = {"features": features, "loss_reduction": self._loss_reduction}
            losses = checks.call_loss_fn(self._loss_fn, labels, logits, self._loss_dimension, **offered)
        else:
            losses = self._losses(labels, logits)
        dimensions = sorted({1, self._loss_dimension})
        return losses, checks.check_weights(features, self._weight_column, logits, dimensions)
