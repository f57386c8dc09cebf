"""RegressionHead, PoissonRegressionHead for counts and LogisticRegressionHead for probabilities."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.types import FeatureColumn
from estimator_train.export import ExportOutput, RegressionOutput
from estimator_train.heads import checks
from estimator_train.heads.head import Predictions
from estimator_train.heads.keys import MetricKeys, PredictionKeys
from estimator_train.heads.single_head import MetricFactories, SingleHead, labels_and, only


class RegressionHead(SingleHead):
    """Computes the squared error of the logits.

    Labels are numbers of shape [D0, D1, ... DN, label_dimension]; a last dimension of 1 may be omitted. Raises
    ValueError if an argument is invalid.

        >>> head = et.RegressionHead()
        >>> float(head.loss(labels=tf.constant([[3.0]]), logits=tf.constant([[1.0]])))
        4.0

    Args:
      label_dimension: number of values in an example's label.
      weight_column: as for `SingleHead`; weights may be given per example, or per value of the label.
      inverse_link_fn: function that turns logits into predictions; None uses the logits themselves.
      loss_reduction, loss_fn, name: as for `SingleHead`.
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., tf.Tensor] | None = None,
        inverse_link_fn: Callable[[tf.Tensor], tf.Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(label_dimension, label_dimension, weight_column, loss_reduction, loss_fn, name)
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}; it must be at least 1.")
        self._inverse_link_fn = inverse_link_fn

    def _labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        return tf.cast(checks.check_labels(labels, logits, self._logits_dimension), tf.float32)

    def _losses(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        return tf.math.squared_difference(logits, labels)

    def _predictions(self, logits: tf.Tensor) -> Predictions:
        if self._inverse_link_fn is None:
            return {PredictionKeys.PREDICTIONS: logits}
        return {PredictionKeys.PREDICTIONS: self._inverse_link_fn(logits), PredictionKeys.LOGITS: logits}

    def _metrics(self) -> MetricFactories:
        return {
            MetricKeys.PREDICTION_MEAN: (keras.metrics.Mean, only(PredictionKeys.PREDICTIONS)),
            MetricKeys.LABEL_MEAN: (keras.metrics.Mean, labels_and()),
        }

    def _export_outputs(self, predictions: Predictions) -> dict[str, ExportOutput]:
        return {"regression": RegressionOutput(predictions[PredictionKeys.PREDICTIONS])}


class PoissonRegressionHead(RegressionHead):
    """Computes the log Poisson loss of the logits, which are the logarithms of the predicted counts.

        >>> head = et.PoissonRegressionHead(compute_full_loss=False)
        >>> float(head.loss(labels=tf.constant([[2.0]]), logits=tf.constant([[0.0]])))
        1.0

    With `compute_full_loss`, the loss includes Stirling's approximation of the constant term. The other arguments are
    those of `RegressionHead`.
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        loss_reduction: str = "sum_over_batch_size",
        compute_full_loss: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(label_dimension, weight_column, loss_reduction, None, tf.math.exp, name)
        self._compute_full_loss = compute_full_loss

    def _losses(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.log_poisson_loss(labels, logits, self._compute_full_loss)


class LogisticRegressionHead(RegressionHead):
    """Computes sigmoid cross entropy of a single logit, for labels that are probabilities.

        >>> head = et.LogisticRegressionHead()
        >>> round(float(head.loss(labels=tf.constant([[0.5]]), logits=tf.constant([[0.0]]))), 4)
        0.6931

    The arguments are those of `RegressionHead`.
    """

    def __init__(
        self,
        weight_column: str | FeatureColumn | None = None,
        loss_reduction: str = "sum_over_batch_size",
        name: str | None = None,
    ) -> None:
        super().__init__(1, weight_column, loss_reduction, None, tf.math.sigmoid, name)

    def _losses(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        labels = checks.check_label_range(labels, 2, "Labels must be in range [0, 1]")
        return tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
