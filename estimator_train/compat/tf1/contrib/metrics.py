"""tf.contrib.metrics: the metrics of tf.metrics, with predictions before labels."""

import tensorflow as tf

_metrics = tf.compat.v1.metrics


def _streaming(metric):
    """Returns `metric` with its first two arguments swapped, to contrib's order."""

    def streaming(predictions, labels, *args, **kwargs):
        return metric(labels, predictions, *args, **kwargs)

    return streaming


confusion_matrix = tf.compat.v1.confusion_matrix
streaming_accuracy = _streaming(_metrics.accuracy)
streaming_auc = _streaming(_metrics.auc)
streaming_false_negatives = _streaming(_metrics.false_negatives)
streaming_false_negatives_at_thresholds = _streaming(_metrics.false_negatives_at_thresholds)
streaming_false_positives = _streaming(_metrics.false_positives)
streaming_false_positives_at_thresholds = _streaming(_metrics.false_positives_at_thresholds)
streaming_mean = _metrics.mean
streaming_mean_absolute_error = _streaming(_metrics.mean_absolute_error)
streaming_mean_cosine_distance = _streaming(_metrics.mean_cosine_distance)
streaming_mean_iou = _streaming(_metrics.mean_iou)
streaming_mean_relative_error = _streaming(_metrics.mean_relative_error)
streaming_mean_squared_error = _streaming(_metrics.mean_squared_error)
streaming_mean_tensor = _metrics.mean_tensor
streaming_percentage_less = _metrics.percentage_below
streaming_precision = _streaming(_metrics.precision)
streaming_precision_at_thresholds = _streaming(_metrics.precision_at_thresholds)
streaming_recall = _streaming(_metrics.recall)
streaming_recall_at_thresholds = _streaming(_metrics.recall_at_thresholds)
streaming_root_mean_squared_error = _streaming(_metrics.root_mean_squared_error)
streaming_sensitivity_at_specificity = _streaming(_metrics.sensitivity_at_specificity)
streaming_sparse_average_precision_at_k = _streaming(_metrics.sparse_average_precision_at_k)
streaming_sparse_precision_at_k = _streaming(_metrics.precision_at_k)
streaming_sparse_recall_at_k = _streaming(_metrics.recall_at_k)
streaming_specificity_at_sensitivity = _streaming(_metrics.specificity_at_sensitivity)
streaming_true_negatives = _streaming(_metrics.true_negatives)
streaming_true_negatives_at_thresholds = _streaming(_metrics.true_negatives_at_thresholds)
streaming_true_positives = _streaming(_metrics.true_positives)
streaming_true_positives_at_thresholds = _streaming(_metrics.true_positives_at_thresholds)


def accuracy(predictions, labels, weights=None, name=None):
    """Returns the fraction of correct predictions in this batch: a tensor, not a streaming metric."""
    with tf.name_scope(name or "accuracy"):
        is_correct = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(is_correct)
        weights = tf.broadcast_to(tf.cast(weights, tf.float32), tf.shape(is_correct))
        return tf.reduce_sum(is_correct * weights) / tf.reduce_sum(weights)


def aggregate_metrics(*value_update_tuples):
    """Returns (list of values, list of update ops)."""
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples):
    """Returns (dict of values, dict of update ops), keyed by name."""
    return (
        {name: value for name, (value, _) in names_to_tuples.items()},
        {name: update for name, (_, update) in names_to_tuples.items()},
    )
