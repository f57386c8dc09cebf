"""Maps class names to ids, and builds the predictions, metrics and export outputs that classifiers share."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import tensorflow as tf
import tf_keras as keras

from estimator_train.export import ClassificationOutput
from estimator_train.heads.head import Predictions
from estimator_train.heads.keys import MetricKeys, PredictionKeys
from estimator_train.heads.single_head import MetricFactories, UpdateArguments


def ids_of(labels: tf.Tensor, vocabulary: Sequence[str]) -> tf.Tensor:
    """Returns the indices of string labels in `vocabulary`, int64; -1 for unknown labels."""
    places = tf.lookup.KeyValueTensorInitializer(tf.constant(vocabulary), tf.range(len(vocabulary), dtype=tf.int64))
    return tf.lookup.StaticHashTable(places, default_value=-1).lookup(labels)


def class_predictions(logits: tf.Tensor, n_classes: int, vocabulary: Sequence[str] | None) -> Predictions:
    """Returns the predictions of a single-label classifier, from its logits [D0, D1, ... DN, n_classes]."""
    class_ids = tf.math.argmax(logits, axis=-1, name=PredictionKeys.CLASS_IDS)[..., tf.newaxis]
    return {
        PredictionKeys.PROBABILITIES: tf.nn.softmax(logits, name=PredictionKeys.PROBABILITIES),
        PredictionKeys.CLASS_IDS: class_ids,
        PredictionKeys.CLASSES: tf.gather(vocabulary, class_ids) if vocabulary else tf.strings.as_string(class_ids),
        PredictionKeys.ALL_CLASS_IDS: tf.tile([tf.range(n_classes)], [tf.shape(logits)[0], 1]),
        PredictionKeys.ALL_CLASSES: all_classes(logits, n_classes, vocabulary),
    }


def all_classes(logits: tf.Tensor, n_classes: int, vocabulary: Sequence[str] | None) -> tf.Tensor:
    """Returns the names of all classes for each example, string [batch, n_classes]."""
    names = vocabulary or [str(class_id) for class_id in range(n_classes)]
    return tf.tile([names], [tf.shape(logits)[0], 1])


def classification_output(
    predictions: Predictions, n_classes: int, vocabulary: Sequence[str] | None
) -> ClassificationOutput:
    """Returns the `ClassificationOutput` of a classifier's probabilities."""
    scores = predictions[PredictionKeys.PROBABILITIES]
    return ClassificationOutput(scores, all_classes(scores, n_classes, vocabulary))


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
