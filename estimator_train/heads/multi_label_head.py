"""MultiLabelHead: classification with any number of classes per example."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.types import FeatureColumn
from estimator_train.heads import checks
from estimator_train.heads.classes import ClassHead, all_classes, threshold_metrics
from estimator_train.heads.head import Predictions
from estimator_train.heads.keys import MetricKeys, PredictionKeys
from estimator_train.heads.single_head import MetricFactories, UpdateArguments, labels_and, only


class MultiLabelHead(ClassHead):
    """Computes sigmoid cross entropy per class, averaged over classes; an example may belong to any number of them.

        >>> head = et.MultiLabelHead(n_classes=2)
        >>> round(float(head.loss(labels=tf.constant([[1, 0]]), logits=tf.constant([[0.0, 0.0]]))), 4)
        0.6931

    Labels are an int tensor [D0, D1, ... DN, n_classes] of 0 and 1, or a SparseTensor [D0, D1, ... DN, ?] of class ids
    or of strings of `label_vocabulary`. Raises ValueError if an argument is invalid.

    Args:
      n_classes: number of classes, at least 2.
      thresholds: iterable of floats in (0, 1) at which to measure accuracy, precision and recall over all classes.
      label_vocabulary: list or tuple of n_classes strings.
      classes_for_class_based_metrics: iterable of class ids, or of strings of `label_vocabulary`, for which to measure
        the mean probability and the AUC.
      weight_column, loss_reduction, loss_fn, name: as for `SingleHead`.
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: str | FeatureColumn | None = None,
        thresholds: Iterable[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., tf.Tensor] | None = None,
        classes_for_class_based_metrics: Iterable[int | str] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(n_classes, label_vocabulary, n_classes, weight_column, loss_reduction, loss_fn, name)
        if n_classes is None or n_classes < 2:
            raise ValueError(f"n_classes must be > 1 for multi-label classification. Given: {n_classes}")
        self._thresholds = checks.check_thresholds(thresholds)
        self._measured_classes = [self._class_id(given) for given in classes_for_class_based_metrics or ()]

    def _class_id(self, given: int | str) -> int:
        if isinstance(given, str):
            if self._label_vocabulary is None or given not in self._label_vocabulary:
                raise ValueError(
                    "label_vocabulary must be provided and have all classes_for_class_based_metrics that are strings. "
                    f"Given: {given!r}, label_vocabulary {self._label_vocabulary}"
                )
            return self._label_vocabulary.index(given)
        if not 0 <= given < self._n_classes:
            raise ValueError(
                f"All classes_for_class_based_metrics must be in range [0, {self._n_classes - 1}]. Given: {given}"
            )
        return given

    def _labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        n_classes = self._n_classes
        checks.check_has_labels(labels)
        if isinstance(labels, tf.SparseTensor):
            if self._label_vocabulary is not None and labels.dtype == tf.string:
                labels = labels.with_values(self._ids_of(labels.values))
            if not labels.dtype.is_integer:
                raise ValueError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
            message = f"labels must be an integer SparseTensor with values in [0, {n_classes})"
            labels = labels.with_values(checks.check_label_range(labels.values, n_classes, message))
            labels = tf.cast(tf.sparse.to_indicator(labels, n_classes), tf.int64)
        labels = checks.check_labels(labels, logits, n_classes)
        return checks.check_label_range(labels, 2, "labels must be an integer indicator Tensor with values in [0, 1]")

    def _losses(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, logits.dtype), logits)
        return tf.reduce_mean(losses, axis=-1, keepdims=True)

    def _predictions(self, logits: tf.Tensor) -> Predictions:
        return {
            PredictionKeys.LOGITS: logits,
            PredictionKeys.PROBABILITIES: tf.math.sigmoid(logits, name=PredictionKeys.PROBABILITIES),
            PredictionKeys.CLASSES: all_classes(logits, self._n_classes, self._label_vocabulary),
        }

    def _metrics(self) -> MetricFactories:
        auc_pr = functools.partial(keras.metrics.AUC, curve="PR")
        and_probabilities = labels_and(PredictionKeys.PROBABILITIES)
        metrics = {
            MetricKeys.AUC: (keras.metrics.AUC, and_probabilities),
            MetricKeys.AUC_PR: (auc_pr, and_probabilities),
            **threshold_metrics(self._thresholds, and_probabilities),
        }
        for class_id in self._measured_classes:
            name = f"class{class_id}"
            if self._label_vocabulary is not None:
                name = self._label_vocabulary[class_id]
            probability = _of_class(class_id, only(PredictionKeys.PROBABILITIES))
            label_and_probability = _of_class(class_id, and_probabilities)
            metrics |= {
                MetricKeys.PROBABILITY_MEAN_AT_NAME % name: (keras.metrics.Mean, probability),
                MetricKeys.AUC_AT_NAME % name: (keras.metrics.AUC, label_and_probability),
                MetricKeys.AUC_PR_AT_NAME % name: (auc_pr, label_and_probability),
            }
        return metrics


def _of_class(class_id: int, give: UpdateArguments) -> UpdateArguments:
    """Returns a function that gives a metric what `give` does, for one class."""
    return lambda labels, predictions: tuple(each[..., class_id, tf.newaxis] for each in give(labels, predictions))
