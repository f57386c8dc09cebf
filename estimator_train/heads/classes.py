"""ClassHead: the base of the heads of classifiers, and the names of their classes."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train.export import ClassificationOutput, ExportOutput
from estimator_train.heads import checks
from estimator_train.heads.head import Predictions
from estimator_train.heads.keys import MetricKeys, PredictionKeys
from estimator_train.heads.single_head import MetricFactories, SingleHead, UpdateArguments


class ClassHead(SingleHead):
    """Base class of the heads of classifiers, with one loss for each example; `others` are those of `SingleHead`."""

    def __init__(
        self, n_classes: int, label_vocabulary: Sequence[str] | None, logits_dimension: int, *others: Any
    ) -> None:
        super().__init__(logits_dimension, 1, *others)
        checks.check_label_vocabulary(label_vocabulary, n_classes)
        self._n_classes = n_classes
        self._label_vocabulary = label_vocabulary

    def _ids_of(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns the indices of string labels in the vocabulary, int64; -1 for unknown labels."""
        names, ids = tf.constant(self._label_vocabulary), tf.range(self._n_classes, dtype=tf.int64)
        places = tf.lookup.KeyValueTensorInitializer(names, ids)
        return tf.lookup.StaticHashTable(places, default_value=-1).lookup(labels)

    def _class_predictions(self, logits: tf.Tensor) -> Predictions:
        """Returns the predictions of a single-label classifier, from its logits [D0, D1, ... DN, n_classes]."""
        class_ids = tf.math.argmax(logits, axis=-1, name=PredictionKeys.CLASS_IDS)[..., tf.newaxis]
        names = self._label_vocabulary
        classes = tf.gather(names, class_ids) if names else tf.strings.as_string(class_ids, name="str_classes")
        return {
            PredictionKeys.PROBABILITIES: tf.nn.softmax(logits, name=PredictionKeys.PROBABILITIES),
            PredictionKeys.CLASS_IDS: class_ids,
            PredictionKeys.CLASSES: classes,
            PredictionKeys.ALL_CLASS_IDS: all_class_ids(logits, self._n_classes),
            PredictionKeys.ALL_CLASSES: all_classes(logits, self._n_classes, names),
        }

    def _export_outputs(self, predictions: Predictions) -> dict[str, ExportOutput]:
        scores = predictions[PredictionKeys.PROBABILITIES]
        return {"classification": classification_output(scores, self._n_classes, self._label_vocabulary)}


def all_class_ids(logits: tf.Tensor, n_classes: int) -> tf.Tensor:
    """Returns the ids of all classes for each example, int32 [batch, n_classes]."""
    return tf.tile([tf.range(n_classes)], [tf.shape(logits)[0], 1])


def all_classes(logits: tf.Tensor, n_classes: int, label_vocabulary: Sequence[str] | None = None) -> tf.Tensor:
    """Returns the names of all classes for each example, string [batch, n_classes]."""
    names = label_vocabulary or [str(class_id) for class_id in range(n_classes)]
    return tf.tile([names], [tf.shape(logits)[0], 1])


def classification_output(
    scores: tf.Tensor, n_classes: int, label_vocabulary: Sequence[str] | None = None
) -> ClassificationOutput:
    """Returns the `ClassificationOutput` of all classes with their `scores`, float32 [batch, n_classes]."""
    return ClassificationOutput(scores, all_classes(scores, n_classes, label_vocabulary))


def threshold_metrics(thresholds: Iterable[float], give: UpdateArguments) -> MetricFactories:
    """Returns accuracy, precision and recall at each of `thresholds`, in the form of `SingleHead._metrics`."""
    metrics: MetricFactories = {}
    for threshold in thresholds:
        for key, make in (
            (MetricKeys.ACCURACY_AT_THRESHOLD, functools.partial(keras.metrics.BinaryAccuracy, threshold=threshold)),
            (MetricKeys.PRECISION_AT_THRESHOLD, functools.partial(keras.metrics.Precision, thresholds=threshold)),
            (MetricKeys.RECALL_AT_THRESHOLD, functools.partial(keras.metrics.Recall, thresholds=threshold)),
        ):
            metrics[key % threshold] = (make, give)
    return metrics
