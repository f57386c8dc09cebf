"""Checks the inputs of heads: logits, labels, weights and constructor arguments."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_train._engine.argument_names import argument_names, taken_by
from estimator_train._engine.types import FeatureColumn

v1 = tf.compat.v1

_REDUCTIONS = {  # maps Keras' names, and v1's own, to v1's names
    "auto": v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
    "sum": v1.losses.Reduction.SUM,
    "sum_over_batch_size": v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
} | {reduction: reduction for reduction in v1.losses.Reduction.all() if reduction != v1.losses.Reduction.NONE}


def v1_reduction(loss_reduction: str) -> str:
    """Returns the `tf.compat.v1.losses.Reduction` of a loss reduction. Raises ValueError if it is none or unknown."""
    if loss_reduction not in _REDUCTIONS:
        raise ValueError(f"Invalid loss_reduction: {loss_reduction}; it must be one of {sorted(_REDUCTIONS)}")
    return _REDUCTIONS[loss_reduction]


def chosen_predictions(predictions: dict[Any, tf.Tensor], keys: Iterable[Any] | None) -> dict[Any, tf.Tensor]:
    """Returns the predictions of `keys`, or all if None. Raises ValueError for an unknown key."""
    keys = list(predictions if keys is None else keys)
    unknown = [key for key in keys if key not in predictions]
    if unknown:
        known = list(predictions)
        raise ValueError(f"Prediction key must be in PredictionKeys, given: {unknown[0]}. Valid keys: {known}")
    return {key: predictions[key] for key in keys}


def check_loss_fn(loss_fn: Callable[..., tf.Tensor]) -> None:
    """Raises ValueError unless a loss_fn takes labels and logits, with or without features and loss_reduction."""
    if not callable(loss_fn):
        raise ValueError(f"loss_fn must be a function of labels and logits, given: {loss_fn!r}")
    names = argument_names(loss_fn)
    for required in ("labels", "logits"):
        if required not in names:
            raise ValueError(f"loss_fn must contain argument: {required}. Given arguments: {names}")
    unexpected = sorted(set(names) - {"labels", "logits", "features", "loss_reduction"})
    if unexpected:
        raise ValueError(f"loss_fn has unexpected args: {unexpected}")


def call_loss_fn(
    loss_fn: Callable[..., tf.Tensor], labels: tf.Tensor, logits: tf.Tensor, dimension: int, **offered: Any
) -> tf.Tensor:
    """Returns the checked losses [D0, D1, ... DN, dimension] of a loss_fn, which gets what it takes of `offered`."""
    losses = loss_fn(labels=labels, logits=logits, **taken_by(loss_fn, offered))
    message = f"loss_fn must return Tensor of shape [D0, D1, ... DN, {dimension}]"
    return _check_shape(losses, logits, (dimension,), message)


def check_n_classes(n_classes: int) -> int:
    """Returns `n_classes`. Raises ValueError unless it is greater than 2."""
    if n_classes is None or n_classes <= 2:
        raise ValueError(f"n_classes must be > 2: {n_classes}.")
    return n_classes


def check_label_vocabulary(vocabulary: Sequence[str] | None, n_classes: int | None = None) -> None:
    """Raises ValueError unless `vocabulary` is None, or a list or tuple of `n_classes` items if that is given."""
    if vocabulary is None:
        return
    if not isinstance(vocabulary, (list, tuple)):
        raise ValueError(f"label_vocabulary should be a list or a tuple. Given type: {type(vocabulary)}")
    if n_classes is not None and len(vocabulary) != n_classes:
        raise ValueError(
            f'"label_vocabulary" does not have "n_classes" items. Length of label_vocabulary must be n_classes '
            f"({n_classes}). Given: {len(vocabulary)}"
        )


def check_thresholds(thresholds: Iterable[float] | None) -> tuple[float, ...]:
    """Returns `thresholds`, an iterable or None, as a tuple. Raises ValueError if one is outside (0, 1)."""
    thresholds = () if thresholds is None else tuple(thresholds)
    for threshold in thresholds:
        if not 0 < threshold < 1:
            raise ValueError(f"thresholds not in (0, 1): thresholds must be in (0, 1) range. Given: {threshold}")
    return thresholds


def check_logits(logits: tf.Tensor, expected_logits_dimension: int) -> tf.Tensor:
    """Returns `logits` as float32 [D0, D1, ... DN, expected_logits_dimension].

    Raises ValueError if the shape is different. A shape that is unknown in the graph is checked when the logits are
    computed. With the behavior of TensorFlow 1, as in tf.estimator, only an unknown rank is: programs train logits of
    (N, N), from a sum of (N, 1) and (N,), whose last dimension their graph does not know.
    """
    dimension = expected_logits_dimension
    logits = tf.cast(logits, tf.float32)
    message = "logits shape must be [D0, D1, ... DN, logits_dimension]"
    if logits.shape.rank is None:
        has_dimension = tf.equal(tf.shape(logits)[-1:], [dimension])
        return _asserted(logits, tf.logical_and(tf.rank(logits) >= 2, tf.reduce_all(has_dimension)), message)
    sizes = logits.shape.as_list()
    if len(sizes) < 2:
        raise ValueError(f"logits must have rank at least 2. Received rank {len(sizes)}, shape {logits.shape}")
    if sizes[-1] not in (None, dimension):
        raise ValueError(f"{message}, got {logits.shape}; the logits_dimension is {dimension}.")
    if sizes[-1] is None and not isinstance(logits.shape[-1], v1.Dimension):  # as with TensorFlow 2's shapes
        return _asserted(logits, tf.equal(tf.shape(logits)[-1], dimension), message)
    return logits


def check_labels(labels: Any, logits: tf.Tensor, expected_labels_dimension: int) -> tf.Tensor:
    """Returns `labels` as [D0, D1, ... DN, expected_labels_dimension]; a last dimension of 1 may be omitted.

    Raises ValueError if there are no labels, they are sparse, or their shape is wrong.
    """
    dimension = expected_labels_dimension
    check_has_labels(labels)
    if isinstance(labels, (tf.SparseTensor, v1.SparseTensorValue)):
        raise ValueError(
            "SparseTensor labels are not supported. Labels must be a Tensor of shape "
            f"[D0, D1, ..., DN, {dimension}], e.g. [batch_size, {dimension}]; use tf.sparse.to_dense in input_fn."
        )
    labels = tf.convert_to_tensor(labels)
    if dimension == 1:
        labels = _with_last_dimension(labels, logits)
    message = (
        f"Mismatched label shape. Expected labels dimension={dimension}; check n_classes or label_dimension of the head"
    )
    return _check_shape(labels, logits, (dimension,), message)


def check_has_labels(labels: Any) -> None:
    """Raises ValueError if `labels` is None."""
    if labels is None:
        raise ValueError("You must provide a labels Tensor. Given: None. Check that input_fn returns labels.")


def check_label_range(labels: tf.Tensor, n_classes: int, message: str | None = None) -> tf.Tensor:
    """Returns `labels`, checked to be in [0, n_classes - 1]; in a graph, the check runs with them.

    A violation, in eager mode a ValueError, is reported with `message`, or else with the limit that is exceeded.
    """
    eager = tf.executing_eagerly()
    limits = {
        "Labels must be >= 0": labels >= 0,
        f"Labels must be <= {n_classes if eager else 'n_classes'} - 1": labels <= tf.cast(n_classes - 1, labels.dtype),
    }
    for limit, holds in limits.items():
        if not eager:
            labels = _asserted(labels, tf.reduce_all(holds), message or limit)
        elif not tf.reduce_all(holds):
            raise ValueError(f"{message or limit}; given: {labels}")
    return labels


def check_weights(
    features: dict[str, Any] | None,
    weight_column: str | FeatureColumn | None,
    logits: tf.Tensor,
    dimensions: Sequence[int],
) -> tf.Tensor | float:
    """Returns the examples' weights, float32 [D0, D1, ... DN, d] with d in `dimensions`; 1.0 without a weight_column.

    Raises TypeError if weight_column is neither a str nor a `tf.feature_column.numeric_column`, and ValueError if the
    feature is missing, is not numeric, or has another shape than this or [D0, D1, ... DN].
    """
    if weight_column is None:
        return 1.0
    if not isinstance(weight_column, str) and not hasattr(weight_column, "normalizer_fn"):
        raise TypeError(f"Weight column must be either a string or NumericColumn. Given type: {type(weight_column)}.")
    key, normalize = getattr(weight_column, "key", weight_column), getattr(weight_column, "normalizer_fn", None)
    if not isinstance(features, dict) or key not in features:
        raise ValueError(f"Feature {key} is not in features dictionary. It is the weight_column. Given: {features}")
    weights = tf.convert_to_tensor(features[key])
    weights = weights if normalize is None else normalize(weights)
    if not (weights.dtype.is_floating or weights.dtype.is_integer):
        raise ValueError(f"Weight column should be castable to float. Given dtype: {weights.dtype}")
    weights = _with_last_dimension(tf.cast(weights, tf.float32), logits)
    message = "weights shape must be [D0, D1, ... DN], [D0, D1, ... DN, 1]"
    if len(dimensions) > 1:
        message += " or [D0, D1, ... DN, logits_dimension]"
    return _check_shape(weights, logits, dimensions, message)


def _with_last_dimension(tensor: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    ranks = tensor.shape.rank, logits.shape.rank
    if None in ranks or ranks[0] != ranks[1] - 1:
        return tensor
    return tensor[..., tf.newaxis]


def _check_shape(tensor: tf.Tensor, logits: tf.Tensor, dimensions: Sequence[int], message: str) -> tf.Tensor:
    """Returns `tensor`, checked to have the shape of `logits`, except that the last dimension is in `dimensions`."""
    batch = logits.shape[:-1]
    if not any(tensor.shape.is_compatible_with(batch.concatenate(dimension)) for dimension in dimensions):
        raise ValueError(f"{message}. Received {tensor.shape} for logits of shape {logits.shape}.")
    if tensor.shape.is_fully_defined() and logits.shape.is_fully_defined():
        return tensor
    shape, batch = tf.shape(tensor), tf.shape(logits)[:-1]
    matches = [tf.reduce_all(tf.equal(shape, tf.concat([batch, [dimension]], 0))) for dimension in dimensions]
    return _asserted(tensor, tf.reduce_any(matches), message)


def _asserted(tensor: tf.Tensor, condition: tf.Tensor, message: str) -> tf.Tensor:
    """Returns `tensor` with an assertion that fails with `message` at run time unless `condition` holds."""
    with tf.control_dependencies([tf.debugging.Assert(condition, [message, "Received:", tensor])]):
        return tf.identity(tensor)
