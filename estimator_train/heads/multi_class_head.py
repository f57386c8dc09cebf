"""MultiClassHead: single-label classification with more than two classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.types import FeatureColumn
from estimator_train.export import ExportOutput
from estimator_train.heads import checks, classes
from estimator_train.heads.head import Predictions
from estimator_train.heads.keys import MetricKeys, PredictionKeys
from estimator_train.heads.single_head import MetricFactories, SingleHead, labels_and


class MultiClassHead(SingleHead):
    """Computes softmax cross entropy of one logit per class, for examples that belong to a single class.

        >>> head = et.MultiClassHead(n_classes=3)
        >>> round(float(head.loss(labels=tf.constant([[2]]), logits=tf.constant([[0.0, 0.0, 0.0]]))), 4)
        1.0986

    Labels have shape [D0, D1, ... DN] or [D0, D1, ... DN, 1]; they are ints in [0, n_classes) or strings of
    `label_vocabulary`.

    Args:
      n_classes: number of classes, more than 2.
      label_vocabulary: list or tuple of n_classes strings; None if labels are ints.
      weight_column, loss_reduction, loss_fn, name: as for `SingleHead`.

    Raises:
      ValueError: If an argument is invalid.
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
        super().__init__(n_classes, 1, weight_column, loss_reduction, loss_fn, name)
        if n_classes is None or n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}.")
        checks.check_label_vocabulary(label_vocabulary, n_classes)
        self._vocabulary = label_vocabulary

    def _labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        labels = checks.check_labels(labels, logits, 1)
        if self._vocabulary is not None:
            if labels.dtype != tf.string:
                raise ValueError(f"Labels dtype should be string if there is a vocabulary. Instead got {labels.dtype}")
            labels = classes.ids_of(labels, self._vocabulary)
        elif not labels.dtype.is_integer:
            raise ValueError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
        return checks.check_label_range(labels, self._logits_dimension)

    def _losses(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.squeeze(labels, axis=-1), logits)
        return losses[..., tf.newaxis]

    def _predictions(self, logits: tf.Tensor) -> Predictions:
        return {
            PredictionKeys.LOGITS: logits,
            **classes.class_predictions(logits, self._logits_dimension, self._vocabulary),
        }

    def _metrics(self) -> MetricFactories:
        return {MetricKeys.ACCURACY: (keras.metrics.Accuracy, labels_and(PredictionKeys.CLASS_IDS))}

    def _export_outputs(self, predictions: Predictions) -> dict[str, ExportOutput]:
        output = classes.classification_output(predictions, self._logits_dimension, self._vocabulary)
        return {"classification": output}
