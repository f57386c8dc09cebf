"""The functions of the old modules `canned.dnn`, `canned.linear` and `canned.optimizers`, which forks of them call."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.graph import optimizers
from estimator_train._engine.model_fn import EstimatorSpec
from estimator_train._engine.types import FeatureColumn
from estimator_train.canned.api_versions import ApiV1, ApiV2
from estimator_train.canned.canned_estimator import Optimizer, call_logit_fn
from estimator_train.canned.dnn import dnn_logit_fn_builder
from estimator_train.canned.linear import linear_logit_fn_builder
from estimator_train.compat.drop_in.canned_head import _Head
from estimator_train.heads import Head
from estimator_train.run_config import RunConfig

v1 = tf.compat.v1


def dnn_logit_fn_builder_v2(
    units: int,
    hidden_units: Sequence[int],
    feature_columns: Iterable[FeatureColumn],
    activation_fn: Callable[[tf.Tensor], tf.Tensor],
    dropout: float | None,
    batch_norm: bool,
) -> Callable[..., tf.Tensor]:
    """Calls `canned.dnn.dnn_logit_fn_builder` without a partitioner; the logit_fn's variables are below "dnn"."""
    logit_fn = dnn_logit_fn_builder(units, hidden_units, feature_columns, activation_fn, dropout, None, batch_norm)

    def logit_fn_in_scope(features, mode):
        # Inside a scope, TensorFlow 2.15 named the variables outer/dnn/outer/hiddenlayer_0/kernel.
        scope = f"dnn/{v1.get_variable_scope().name}".rstrip("/")
        with ApiV2().variable_scope(scope, None):
            return logit_fn(features, mode)

    return logit_fn_in_scope


def dnn_model_fn_v2(
    features: dict[str, Any],
    labels: Any,
    mode: str,
    head: Head,
    hidden_units: Sequence[int],
    feature_columns: Iterable[FeatureColumn],
    optimizer: Optimizer = "Adagrad",
    activation_fn: Callable[[tf.Tensor], tf.Tensor] = tf.nn.relu,
    dropout: float | None = None,
    config: RunConfig | None = None,
    use_tpu: bool = False,
    batch_norm: bool = False,
) -> EstimatorSpec:
    """Returns the `EstimatorSpec` of a `tf.estimator.DNNEstimator`, for a model_fn; takes the Estimator's arguments."""
    layers = activation_fn, dropout, None, batch_norm
    logit_fn = dnn_logit_fn_builder(head.logits_dimension, hidden_units, feature_columns, *layers)
    with ApiV2().variable_scope("dnn", None):
        return _spec(features, labels, mode, head, config, logit_fn, get_optimizer_instance_v2(optimizer))


def _dnn_model_fn(
    features: dict[str, Any],
    labels: Any,
    mode: str,
    head: Head | _Head,
    hidden_units: Sequence[int],
    feature_columns: Iterable[FeatureColumn],
    optimizer: Optimizer = "Adagrad",
    activation_fn: Callable[[tf.Tensor], tf.Tensor] = tf.nn.relu,
    dropout: float | None = None,
    input_layer_partitioner: Callable[..., Any] | None = None,
    config: RunConfig | None = None,
    use_tpu: bool = False,
    batch_norm: bool = False,
) -> EstimatorSpec:
    """Returns the `EstimatorSpec` of a `tf.compat.v1.estimator.DNNEstimator`."""
    layers = activation_fn, dropout, input_layer_partitioner, batch_norm
    logit_fn = dnn_logit_fn_builder(head.logits_dimension, hidden_units, feature_columns, *layers)
    with _API_V1.variable_scope("dnn", None):
        return _spec(features, labels, mode, head, config, logit_fn, get_optimizer_instance(optimizer, 0.05))


def _linear_model_fn_v2(
    features: dict[str, Any],
    labels: Any,
    mode: str,
    head: Head,
    feature_columns: Sequence[FeatureColumn],
    optimizer: Optimizer,
    config: RunConfig | None,
    sparse_combiner: str = "sum",
) -> EstimatorSpec:
    """Returns the `EstimatorSpec` of a `tf.estimator.LinearEstimator`."""
    logit_fn = linear_logit_fn_builder(head.logits_dimension, feature_columns, sparse_combiner)
    optimizer = get_optimizer_instance_v2(optimizer or "Ftrl", _linear_learning_rate(feature_columns))
    with ApiV2().variable_scope("linear", None):
        return _spec(features, labels, mode, head, config, logit_fn, optimizer)


def _linear_model_fn(
    features: dict[str, Any],
    labels: Any,
    mode: str,
    head: Head | _Head,
    feature_columns: Sequence[FeatureColumn],
    optimizer: Optimizer,
    partitioner: Callable[..., Any] | None,
    config: RunConfig | None,
    sparse_combiner: str = "sum",
) -> EstimatorSpec:
    """Returns the `EstimatorSpec` of a `tf.compat.v1.estimator.LinearEstimator`."""
    logit_fn = linear_logit_fn_builder(head.logits_dimension, feature_columns, sparse_combiner)
    optimizer = get_optimizer_instance(optimizer or "Ftrl", _linear_learning_rate(feature_columns))
    with _API_V1.variable_scope("linear", partitioner):
        return _spec(features, labels, mode, head, config, logit_fn, optimizer)


def _validate_linear_sdca_optimizer_for_linear_classifier(
    feature_columns: Any, n_classes: int, optimizer: Any, sparse_combiner: str
) -> None:
    """Does nothing, because this package has no LinearSDCA; kept for compatibility."""


def get_optimizer_instance(opt: Optimizer, learning_rate: float | None = None) -> tf.compat.v1.train.Optimizer:
    """Returns a v1 optimizer, given as an optimizer, a function that returns one, or a name, which needs a rate.

    get_optimizer_instance("Adam", learning_rate=0.01)
    """
    if isinstance(opt, str):
        make = ApiV1.optimizer_class(opt)
        if learning_rate is None:
            raise ValueError(f"learning_rate must be specified when opt is string, given: {opt!r}")
        return make(learning_rate)
    made = opt() if callable(opt) else opt
    if not isinstance(made, tf.compat.v1.train.Optimizer):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {made}")
    return made


def get_optimizer_instance_v2(opt: Optimizer, learning_rate: float | None = None) -> keras.optimizers.legacy.Optimizer:
    """Returns a legacy Keras optimizer, given as a name, an optimizer or a function that returns one.

    A new Keras optimizer is replaced by its legacy twin; a ValueError says which of its settings the twin lacks.
    """
    if isinstance(opt, str):
        make = ApiV2.optimizer_class(opt)
        return make() if learning_rate is None else make(learning_rate)
    made: Any = opt
    if callable(opt) and not isinstance(opt, keras.optimizers.legacy.Optimizer):
        made = opt()
    if not isinstance(made, (keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)):
        raise ValueError(f"The given object is not a tf.keras.optimizers.Optimizer instance. Given: {made}")
    return optimizers._as_legacy(made)


_API_V1 = ApiV1(partitioned=True, in_branch=True, partitioner=None)


def _linear_learning_rate(feature_columns):
    return min(0.2, 1 / math.sqrt(len(feature_columns)))


def _spec(features, labels, mode, head, config, logit_fn, optimizer):
    """Returns the spec of the model in this variable scope."""
    logits = call_logit_fn(logit_fn, features, mode, None, config)
    found = {}
    if not isinstance(head, _Head):  # heads of TensorFlow 1 find them themselves
        found["trainable_variables"] = v1.trainable_variables(v1.get_variable_scope().name + "/")
        found["update_ops"] = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    return head.create_estimator_spec(
        features=features, mode=mode, logits=logits, labels=labels, optimizer=optimizer, **found
    )
