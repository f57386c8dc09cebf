"""The functions of the old module `head.base_head`, which custom heads call."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.graph import optimizers, private_tensorflow
from estimator_train._engine.types import FeatureColumn
from estimator_train.heads import checks
from estimator_train.heads.head import DEFAULT_SIGNATURE, train_op
from estimator_train.heads.keys import MetricKeys

v1 = tf.compat.v1

DEFAULT_SERVING_KEY = DEFAULT_SIGNATURE
CLASSIFY_SERVING_KEY = "classification"
REGRESS_SERVING_KEY = "regression"
PREDICT_SERVING_KEY = "predict"


def call_loss_fn(
    loss_fn: Callable[..., tf.Tensor],
    labels: tf.Tensor,
    logits: tf.Tensor,
    features: dict[str, Any],
    expected_loss_dim: int = 1,
) -> tf.Tensor:
    """Calls `loss_fn`, which may take `features`, and returns its losses [D0, D1, ... DN, expected_loss_dim]."""
    checks.check_loss_fn(loss_fn)
    return checks.call_loss_fn(loss_fn, labels, logits, expected_loss_dim, features=features)


def check_label_range(labels: tf.Tensor, n_classes: int, message: str | None = None) -> tf.Tensor:
    """Returns `labels` with a check that fails with `message` if values are outside [0, n_classes - 1]."""
    return checks.check_label_range(labels, n_classes, message or f"Labels must be in range [0, {n_classes - 1}]")


def check_prediction_keys(pred_keys: Iterable[str], valid_keys: Iterable[str]) -> None:
    """Raises ValueError if one of `pred_keys` is not in `valid_keys`."""
    for key in pred_keys:
        if key not in valid_keys:
            raise ValueError(
                f"Prediction key must be in PredictionKeys, given: {key}. "
                f"Valid prediction keys include {list(valid_keys)}."
            )


def get_weights_and_check_match_logits(
    features: dict[str, Any],
    weight_column: str | FeatureColumn | None,
    logits: tf.Tensor,
    allow_per_logit_weights: bool = False,
) -> tf.Tensor | float:
    """Returns the weights of `heads.checks.check_weights`, in the shape of `logits` if that is allowed."""
    dimensions = [1, logits.shape[-1]] if allow_per_logit_weights else [1]
    return checks.check_weights(features, weight_column, logits, dimensions)


def create_eval_metrics_tuple(
    fn: Callable[..., dict[str, Any]], kwargs: dict[str, Any]
) -> tuple[Callable[..., dict[str, Any]], dict[str, tf.Tensor]]:
    """Returns the `eval_metrics` of a `TPUEstimatorSpec`, with tensors separated from `fn`'s other arguments."""
    tensors = {name: value for name, value in kwargs.items() if tf.is_tensor(value)}
    others = {name: value for name, value in kwargs.items() if name not in tensors}
    return functools.partial(fn, **others), tensors


def create_estimator_spec_train_op(
    head_name: str | None,
    optimizer: optimizers.Optimizer | None = None,
    trainable_variables: Sequence[tf.Variable] | None = None,
    train_op_fn: Callable[[tf.Tensor], tf.Operation | tf.Tensor] | None = None,
    update_ops: Sequence[tf.Operation | tf.Tensor] | None = None,
    regularized_training_loss: tf.Tensor | None = None,
    loss_reduction: str = "sum_over_batch_size",
) -> tf.Operation | tf.Tensor:
    """Returns the train_op of a head's EstimatorSpec; see `Head.create_estimator_spec` for the arguments.

    The gradients of a strategy's replicas are added up if loss_reduction is "sum", and averaged otherwise.
    """
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        private_tensorflow.set_loss_reduction(checks.v1_reduction(loss_reduction))
    return train_op(regularized_training_loss, optimizer, trainable_variables, train_op_fn, update_ops)


def create_estimator_spec_summary(
    regularized_training_loss: tf.Tensor,
    regularization_losses: Sequence[tf.Tensor] | None = None,
    summary_key_fn: Callable[[str], str] | None = None,
) -> None:
    """Adds scalar summaries of the losses; `summary_key_fn` turns `MetricKeys` into their names."""
    losses = {MetricKeys.LOSS: regularized_training_loss}
    if regularization_losses:
        losses[MetricKeys.LOSS_REGULARIZATION] = tf.add_n(regularization_losses)
    with v1.name_scope(""):
        for key, loss in losses.items():
            v1.summary.scalar(summary_key_fn(key) if summary_key_fn else key, loss)


def update_metric_with_broadcast_weights(
    eval_metric: keras.metrics.Metric, values: tf.Tensor, weights: tf.Tensor | float | None
) -> None:
    """Updates a Keras metric with float32 `values` and weights broadcast to their shape."""
    values = tf.cast(values, tf.float32)
    if weights is not None:
        weights = tf.broadcast_to(tf.cast(weights, tf.float32), tf.shape(values))
    eval_metric.update_state(values=values, sample_weight=weights)


def validate_trainable_variables(trainable_variables: Sequence[tf.Variable] | None = None) -> None:
    """Raises ValueError unless given a list or tuple."""
    if trainable_variables is None:
        raise ValueError("trainable_variables cannot be None. Given None")
    optimizers._check_is_sequence(trainable_variables, "trainable_variables")


def validate_update_ops(update_ops: Sequence[tf.Operation | tf.Tensor] | None = None) -> None:
    """Raises ValueError unless given a list, a tuple or None."""
    if update_ops is not None:
        optimizers._check_is_sequence(update_ops, "update_ops")


def validate_v2_optimizer(optimizer: optimizers.Optimizer) -> None:
    """Raises ValueError unless `optimizer` is a Keras optimizer."""
    if not isinstance(optimizer, (keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)):
        raise ValueError(
            "The given optimizer is not a tf.keras.optimizers.Optimizer instance. "
            f"Received optimizer of type {type(optimizer)}"
        )
