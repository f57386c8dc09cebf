"""tf.contrib.metrics: the metrics of tf.metrics, which took labels before predictions; contrib takes them after."""

import tensorflow as tf

_metrics = tf.compat.v1.metrics


def _streaming(metric):
    """The metric with contrib's order of its first arguments, predictions and labels."""

    def streaming(predictions, labels, *args, **kwargs):
        return metric(labels, predictions, *args, **kwargs)

    return streaming


streaming_accuracy = _streaming(_metrics.accuracy)
streaming_auc = _streaming(_metrics.auc)
streaming_false_negatives = _streaming(_metrics.false_negatives)
streaming_false_positives = _streaming(_metrics.false_positives)
streaming_mean = _metrics.mean
streaming_mean_absolute_error = _streaming(_metrics.mean_absolute_error)
streaming_mean_squared_error = _streaming(_metrics.mean_squared_error)
streaming_mean_tensor = _metrics.mean_tensor
streaming_percentage_less = _metrics.percentage_below
streaming_precision = _streaming(_metrics.precision)
streaming_recall = _streaming(_metrics.recall)
streaming_root_mean_squared_error = _streaming(_metrics.root_mean_squared_error)
streaming_true_negatives = _streaming(_metrics.true_negatives)
streaming_true_positives = _streaming(_metrics.true_positives)
confusion_matrix = tf.compat.v1.confusion_matrix


def streaming_mean_cosine_distance(
    predictions, labels, dim, weights=None, metrics_collections=None, updates_collections=None, name=None
):
    return _metrics.mean_cosine_distance(
        labels, predictions, dim, weights, metrics_collections, updates_collections, name
    )


def streaming_mean_iou(
    predictions, labels, num_classes, weights=None, metrics_collections=None, updates_collections=None, name=None
):
    return _metrics.mean_iou(labels, predictions, num_classes, weights, metrics_collections, updates_collections, name)


def accuracy(predictions, labels, weights=None, name=None):
    """The share of predictions that equal their labels in this batch: a tensor, not a streaming metric."""
    with tf.name_scope(name or "accuracy"):
        is_correct = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(is_correct)
        weights = tf.broadcast_to(tf.cast(weights, tf.float32), tf.shape(is_correct))
        return tf.reduce_sum(is_correct * weights) / tf.reduce_sum(weights)


def aggregate_metrics(*value_update_tuples):
    """(list of values, list of update ops)."""
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples):
    """(dict of values, dict of update ops), by the names."""
    return (
        {name: value for name, (value, _) in names_to_tuples.items()},
        {name: update for name, (_, update) in names_to_tuples.items()},
    )
