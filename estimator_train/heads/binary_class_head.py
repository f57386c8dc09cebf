"""BinaryClassHead: binary classification with a single logit."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.types import FeatureColumn
from estimator_train.export import ExportOutput, RegressionOutput
from estimator_train.heads import checks
from estimator_train.heads.classes import ClassHead, threshold_metrics
from estimator_train.heads.head import Predictions
from estimator_train.heads.keys import MetricKeys, PredictionKeys
from estimator_train.heads.single_head import MetricFactories, labels_and, only


class BinaryClassHead(ClassHead):
    """Computes sigmoid cross entropy of a single logit, for two classes.

        >>> head = et.BinaryClassHead()
        >>> round(float(head.loss(labels=tf.constant([[1]]), logits=tf.constant([[0.0]]))), 4)
        0.6931

    Labels have shape [D0, D1, ... DN] or [D0, D1, ... DN, 1]; they are numbers in [0, 1] or strings of
    `label_vocabulary`. Raises ValueError if an argument is invalid.

    Args:
      thresholds: iterable of floats in (0, 1) at which to measure accuracy, precision and recall.
      label_vocabulary: list or tuple of two strings; None if labels are numbers.
      weight_column, loss_reduction, loss_fn, name: as for `SingleHead`.
    """

    def __init__(
        self,
        weight_column: str | FeatureColumn | None = None,
        thresholds: Iterable[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., tf.Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(2, label_vocabulary, 1, weight_column, loss_reduction, loss_fn, name)
        self._thresholds = checks.check_thresholds(thresholds)

    def _labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        labels = checks.check_labels(labels, logits, 1)
        if self._label_vocabulary is not None:
            labels = self._ids_of(labels)
        return checks.check_label_range(tf.cast(labels, tf.float32), 2)

    def _losses(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)

    def _predictions(self, logits: tf.Tensor) -> Predictions:
        two_logits = tf.concat([tf.zeros_like(logits), logits], axis=-1)
        return {
            PredictionKeys.LOGITS: logits,
            PredictionKeys.LOGISTIC: tf.math.sigmoid(logits, name=PredictionKeys.LOGISTIC),
            **self._class_predictions(two_logits),
        }

    def _metrics(self) -> MetricFactories:
        and_class, and_logistic = labels_and(PredictionKeys.CLASS_IDS), labels_and(PredictionKeys.LOGISTIC)
        return {
            MetricKeys.ACCURACY: (keras.metrics.Accuracy, and_class),
            MetricKeys.PRECISION: (keras.metrics.Precision, and_class),
            MetricKeys.RECALL: (keras.metrics.Recall, and_class),
            MetricKeys.PREDICTION_MEAN: (keras.metrics.Mean, only(PredictionKeys.LOGISTIC)),
            MetricKeys.LABEL_MEAN: (keras.metrics.Mean, labels_and()),
            MetricKeys.ACCURACY_BASELINE: (_AccuracyBaseline, labels_and()),
            MetricKeys.AUC: (keras.metrics.AUC, and_logistic),
            MetricKeys.AUC_PR: (functools.partial(keras.metrics.AUC, curve="PR"), and_logistic),
            **threshold_metrics(self._thresholds, and_logistic),
        }

    def _export_outputs(self, predictions: Predictions) -> dict[str, ExportOutput]:
        regression = RegressionOutput(predictions[PredictionKeys.LOGISTIC])
        return super()._export_outputs(predictions) | {"regression": regression}


class _AccuracyBaseline(keras.metrics.Mean):
    """Computes the accuracy of always predicting the more frequent class, from labels 0 and 1."""

    def result(self) -> tf.Tensor:
        mean = super().result()
        return tf.maximum(mean, 1 - mean)
