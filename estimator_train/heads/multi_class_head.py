"""MultiClassHead: single-label classification with more than two classes."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.types import FeatureColumn
from estimator_train.heads import checks
from estimator_train.heads.classes import ClassHead
from estimator_train.heads.head import Predictions
from estimator_train.heads.keys import MetricKeys, PredictionKeys
from estimator_train.heads.single_head import MetricFactories, labels_and


class MultiClassHead(ClassHead):
    """Computes softmax cross entropy of one logit per class, for examples that belong to a single class.

        >>> head = et.MultiClassHead(n_classes=3)
        >>> round(float(head.loss(labels=tf.constant([[2]]), logits=tf.constant([[0.0, 0.0, 0.0]]))), 4)
        1.0986

    Labels have shape [D0, D1, ... DN] or [D0, D1, ... DN, 1]; they are ints in [0, n_classes) or strings of
    `label_vocabulary`. Raises ValueError if an argument is invalid.

    Args:
      n_classes: number of classes, more than 2.
      label_vocabulary: list or tuple of n_classes strings; None if labels are ints.
      weight_column, loss_reduction, loss_fn, name: as for `SingleHead`.
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., tf.Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        checks.check_n_classes(n_classes)
        super().__init__(n_classes, label_vocabulary, n_classes, weight_column, loss_reduction, loss_fn, name)

    def _labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        labels = checks.check_labels(labels, logits, 1)
        if self._label_vocabulary is not None:
            if labels.dtype != tf.string:
                raise ValueError(f"Labels dtype should be string if there is a vocabulary. Instead got {labels.dtype}")
            labels = self._ids_of(labels)
        elif not labels.dtype.is_integer:
            raise ValueError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
        return checks.check_label_range(labels, self._n_classes)

    def _losses(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.squeeze(labels, axis=-1), logits)
        return losses[..., tf.newaxis]

    def _predictions(self, logits: tf.Tensor) -> Predictions:
        return {PredictionKeys.LOGITS: logits, **self._class_predictions(logits)}

    def _metrics(self) -> MetricFactories:
        return {MetricKeys.ACCURACY: (keras.metrics.Accuracy, labels_and(PredictionKeys.CLASS_IDS))}
