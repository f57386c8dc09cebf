"""tf.contrib.layers: initializers, regularizers and layers, built on tf.layers and tf.nn.

Variables have contrib's names, such as `fully_connected/weights`, so old checkpoints can be loaded.
"""

import contextlib
import functools
import inspect
import numbers

import tensorflow as tf

from estimator_train.compat.tf1.columns import (  # noqa: F401, contrib had them here
    bucketized_column,
    create_feature_spec_for_parsing,
    crossed_column,
    embedding_column,
    input_from_feature_columns,
    one_hot_column,
    real_valued_column,
    shared_embedding_columns,
    sparse_column_with_hash_bucket,
    sparse_column_with_integerized_feature,
    sparse_column_with_keys,
    sparse_column_with_vocabulary_file,
    weighted_sparse_column,
)
from estimator_train.compat.tf1.contrib.framework import add_arg_scope, add_model_variable, model_variable
from estimator_train.compat.tf1.optimize_loss import (  # noqa: F401, contrib had them here
    OPTIMIZER_CLS_NAMES,
    OPTIMIZER_SUMMARIES,
    optimize_loss,
)

_v1 = tf.compat.v1


# Initializers


def variance_scaling_initializer(factor=2.0, mode="FAN_IN", uniform=False, seed=None, dtype=tf.float32):
    """Returns an initializer that draws truncated normal or uniform values of variance `factor` / fan."""
    modes = {"FAN_IN": "fan_in", "FAN_OUT": "fan_out", "FAN_AVG": "fan_avg"}
    if mode not in modes:
        raise TypeError(f"Unknown mode {mode} [{', '.join(map(repr, modes))}]")
    if not tf.as_dtype(dtype).is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")

    def initializer(shape, dtype=dtype, partition_info=None):
        size = [float(dimension) for dimension in (partition_info.full_shape if partition_info else shape)]
        receptive_field = functools.reduce(lambda product, side: product * side, size[:-2], 1.0)
        fan_in, fan_out = (size[-2] if len(size) > 1 else size[-1]) * receptive_field, size[-1] * receptive_field
        fan = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2}[mode]
        if uniform:
            limit = (3.0 * factor / fan) ** 0.5
            return _v1.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # 1.3 compensates for the variance lost to truncation.
        return _v1.truncated_normal(shape, 0.0, (1.3 * factor / fan) ** 0.5, dtype, seed=seed)

    return initializer


def xavier_initializer(uniform=True, seed=None, dtype=tf.float32):
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


# Regularizers


def l1_regularizer(scale, scope=None):
    """Returns a function of weights: `scale` times the sum of their absolute values, or None if `scale` is 0."""
    return _regularizer(scale, scope, "l1_regularizer", lambda weights: tf.reduce_sum(tf.abs(weights)))


def l2_regularizer(scale, scope=None):
    """Returns a function of weights: `scale` times half the sum of their squares, or None if `scale` is 0."""
    return _regularizer(scale, scope, "l2_regularizer", tf.nn.l2_loss)


def l1_l2_regularizer(scale_l1=1.0, scale_l2=1.0, scope=None):
    scope = scope or "l1_l2_regularizer"
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def sum_regularizer(regularizer_list, scope=None):
    regularizers = [regularizer for regularizer in regularizer_list if regularizer is not None]
    if not regularizers:
        return None

    def total(weights):
        with tf.name_scope(scope or "sum_regularizer"):
            terms = [regularizer(weights) for regularizer in regularizers]
            return tf.add_n([term for term in terms if term is not None])

    return total


def apply_regularization(regularizer, weights_list=None):
    """Returns the sum of the weights' penalties, and adds it to the collection REGULARIZATION_LOSSES."""
    weights_list = weights_list or _v1.get_collection(_v1.GraphKeys.WEIGHTS)
    if not weights_list:
        raise ValueError("No weights to regularize.")
    with tf.name_scope("get_regularization_penalty"):
        penalties = [regularizer(weights) for weights in weights_list]
        total = tf.add_n([penalty for penalty in penalties if penalty is not None] or [tf.constant(0.0)])
    _v1.add_to_collection(_v1.GraphKeys.REGULARIZATION_LOSSES, total)
    return total


def _regularizer(scale, scope, name, penalty):
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real) and scale < 0:
        raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale}")
    if isinstance(scale, numbers.Real) and scale == 0:
        tf.get_logger().info("Scale of 0 disables regularizer.")
        return lambda weights: None

    def regularizer(weights):
        with tf.name_scope(scope or name):
            return tf.multiply(tf.cast(scale, weights.dtype.base_dtype), penalty(weights))

    return regularizer


# Layers


@contextlib.contextmanager
def _scope(scope, default, inputs, reuse, renamed=()):
    """Opens a variable scope that gives contrib's names to the variables of one tf.layers layer named "layer"."""

    def with_contribs_name(getter, name, *args, **kwargs):
        layer, _, variable_name = name.rpartition("/")
        name = f"{layer.removesuffix('/layer')}/{dict(renamed).get(variable_name, variable_name)}"
        variable = getter(name, *args, **kwargs)
        add_model_variable(variable)
        return variable

    with _v1.variable_scope(scope, default, [inputs], reuse=reuse, custom_getter=with_contribs_name) as entered:
        yield entered


_WEIGHTS = (("kernel", "weights"), ("bias", "biases"))


def _finished(outputs, scope, normalizer_fn, normalizer_params, activation_fn, outputs_collections):
    """Applies the normalizer and activation to a layer's outputs."""
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    for collection in [outputs_collections] if isinstance(outputs_collections, str) else outputs_collections or ():
        _v1.add_to_collection(collection, outputs)
    return outputs


class _WithWeights:
    """Wraps a function that applies a layer of tf.layers: adds the arguments of `_apply` to its own."""

    def __init__(self, apply_layer, default_scope):
        functools.update_wrapper(self, apply_layer)
        own = [each for each in inspect.signature(apply_layer).parameters.values() if each.kind != each.VAR_KEYWORD]
        shared = [each for each in inspect.signature(_apply).parameters.values() if each.default is not each.empty]
        self.__signature__ = inspect.Signature([*own, *shared])
        self._own = [each.name for each in own]
        self._apply_layer = apply_layer
        self._default_scope = default_scope

    def __call__(self, *args, **kwargs):
        arguments = self.__signature__.bind(*args, **kwargs).arguments
        own = {name: arguments.pop(name) for name in self._own if name in arguments}
        apply_layer = functools.partial(self._apply_layer, **own)
        return _apply(apply_layer, own["inputs"], self._default_scope, **arguments)


def _with_weights(default_scope):
    return lambda apply_layer: add_arg_scope(_WithWeights(apply_layer, default_scope))


def _apply(
    apply_layer,
    inputs,
    default_scope,
    activation_fn=tf.nn.relu,
    normalizer_fn=None,
    normalizer_params=None,
    weights_initializer=xavier_initializer(),  # noqa: B008, it is a function
    weights_regularizer=None,
    biases_initializer=_v1.zeros_initializer(),  # noqa: B008, it has no state
    biases_regularizer=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    scope=None,
):
    """Applies a layer, then the normalizer, which replaces the biases, and the activation."""
    _check_no_variables_collections(variables_collections)
    with _scope(scope, default_scope, inputs, reuse, _WEIGHTS) as entered:
        outputs = apply_layer(
            use_bias=normalizer_fn is None and biases_initializer is not None,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            trainable=trainable,
            name="layer",
            reuse=reuse,
        )
        return _finished(outputs, entered, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


@_with_weights("fully_connected")
def fully_connected(inputs, num_outputs, **options):
    """Applies a dense layer with an activation, by default relu; a normalizer replaces the biases."""
    return _v1.layers.dense(inputs, num_outputs, **options)


linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)


@_with_weights("Conv")
def conv2d(inputs, num_outputs, kernel_size, stride=1, padding="SAME", data_format=None, rate=1, **options):
    """Applies a 2-D convolution with an activation, by default relu."""
    data_format = _keras_data_format(data_format)
    return _v1.layers.conv2d(inputs, num_outputs, kernel_size, stride, padding.lower(), data_format, rate, **options)


convolution2d = convolution = conv2d


@_with_weights("Conv2d_transpose")
def conv2d_transpose(inputs, num_outputs, kernel_size, stride=1, padding="SAME", data_format="NHWC", **options):
    """Applies a transposed 2-D convolution with an activation, by default relu."""
    data_format = _keras_data_format(data_format)
    return _v1.layers.conv2d_transpose(
        inputs, num_outputs, kernel_size, stride, padding.lower(), data_format, **options
    )


convolution2d_transpose = conv2d_transpose


@add_arg_scope
def max_pool2d(
    inputs, kernel_size, stride=2, padding="VALID", data_format="NHWC", outputs_collections=None, scope=None
):
    outputs = _v1.layers.max_pooling2d(
        inputs, kernel_size, stride, padding.lower(), _keras_data_format(data_format), name=scope or "MaxPool2D"
    )
    return _finished(outputs, scope, None, None, None, outputs_collections)


@add_arg_scope
def avg_pool2d(
    inputs, kernel_size, stride=2, padding="VALID", data_format="NHWC", outputs_collections=None, scope=None
):
    outputs = _v1.layers.average_pooling2d(
        inputs, kernel_size, stride, padding.lower(), _keras_data_format(data_format), name=scope or "AvgPool2D"
    )
    return _finished(outputs, scope, None, None, None, outputs_collections)


@add_arg_scope
def flatten(inputs, outputs_collections=None, scope=None):
    return _finished(_v1.layers.flatten(inputs, name=scope), scope, None, None, None, outputs_collections)


@add_arg_scope
def dropout(inputs, keep_prob=0.5, noise_shape=None, is_training=True, outputs_collections=None, scope=None, seed=None):
    """Applies dropout; `keep_prob` is the fraction of inputs to keep."""
    outputs = _v1.layers.dropout(inputs, 1 - keep_prob, noise_shape, seed, is_training, scope)
    return _finished(outputs, scope, None, None, None, outputs_collections)


@add_arg_scope
def batch_norm(
    inputs,
    decay=0.999,
    center=True,
    scale=False,
    epsilon=0.001,
    activation_fn=None,
    param_initializers=None,
    param_regularizers=None,
    updates_collections=_v1.GraphKeys.UPDATE_OPS,
    is_training=True,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    batch_weights=None,
    fused=None,
    data_format="NHWC",
    zero_debias_moving_mean=False,
    scope=None,
    renorm=False,
    renorm_clipping=None,
    renorm_decay=0.99,
    adjustment=None,
):
    """Applies batch normalization; with `updates_collections=None`, fetching the outputs updates the statistics."""
    _check_no_variables_collections(variables_collections)
    if batch_weights is not None or zero_debias_moving_mean:
        raise ValueError("batch_norm: batch_weights and zero_debias_moving_mean are not supported; remove them")
    initializers, regularizers = param_initializers or {}, param_regularizers or {}
    before = list(_v1.get_collection(_v1.GraphKeys.UPDATE_OPS))
    with _scope(scope, "BatchNorm", inputs, reuse) as entered:
        outputs = _v1.layers.batch_normalization(
            inputs,
            axis=1 if data_format == "NCHW" else -1,
            momentum=decay,
            epsilon=epsilon,
            center=center,
            scale=scale,
            beta_initializer=initializers.get("beta", _v1.zeros_initializer()),
            gamma_initializer=initializers.get("gamma", _v1.ones_initializer()),
            moving_mean_initializer=initializers.get("moving_mean", _v1.zeros_initializer()),
            moving_variance_initializer=initializers.get("moving_variance", _v1.ones_initializer()),
            beta_regularizer=regularizers.get("beta"),
            gamma_regularizer=regularizers.get("gamma"),
            training=is_training,
            trainable=trainable,
            name="layer",
            reuse=reuse,
            renorm=renorm,
            renorm_clipping=renorm_clipping,
            renorm_momentum=renorm_decay,
            fused=fused,
        )
        if updates_collections != _v1.GraphKeys.UPDATE_OPS:
            collection = _v1.get_collection_ref(_v1.GraphKeys.UPDATE_OPS)
            updates, collection[:] = collection[len(before) :], before
            if updates_collections is None:
                with tf.control_dependencies(updates):
                    outputs = tf.identity(outputs)
            else:
                for update in updates:
                    _v1.add_to_collections(updates_collections, update)
        return _finished(outputs, entered, None, None, activation_fn, outputs_collections)


@add_arg_scope
def layer_norm(
    inputs,
    center=True,
    scale=True,
    activation_fn=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    begin_norm_axis=1,
    begin_params_axis=-1,
    scope=None,
):
    """Applies layer normalization over the axes from `begin_norm_axis` on (https://arxiv.org/abs/1607.06450)."""
    _check_no_variables_collections(variables_collections)
    with _v1.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as entered:
        shape = inputs.shape.as_list()
        axes = list(range(begin_norm_axis % len(shape), len(shape)))
        params = shape[begin_params_axis:]
        if None in params:
            raise ValueError(f"layer_norm: the shape {shape} must be known from axis {begin_params_axis} on")
        dtype = inputs.dtype.base_dtype
        beta = gamma = None
        if center:
            beta = model_variable("beta", params, dtype, _v1.zeros_initializer(), trainable=trainable)
        if scale:
            gamma = model_variable("gamma", params, dtype, _v1.ones_initializer(), trainable=trainable)
        mean, variance = tf.nn.moments(inputs, axes, keepdims=True)
        epsilon = 1e-3 if dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        return _finished(outputs, entered, None, None, activation_fn, outputs_collections)


@add_arg_scope
def softmax(logits, scope=None):
    return tf.nn.softmax(logits, name=scope)


@add_arg_scope
def one_hot_encoding(labels, num_classes, on_value=1.0, off_value=0.0, outputs_collections=None, scope=None):
    labels = tf.cast(labels, tf.int64)
    outputs = tf.one_hot(labels, num_classes, on_value, off_value, name=scope)
    return _finished(outputs, scope, None, None, None, outputs_collections)


def embed_sequence(
    ids,
    vocab_size=None,
    embed_dim=None,
    unique=False,
    initializer=None,
    regularizer=None,
    trainable=True,
    scope=None,
    reuse=None,
):
    """Maps ids [batch, time] to vectors [batch, time, embed_dim]; `unique` is ignored."""
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            "Must specify vocab size and embedding dimension when not reusing. "
            f"Got vocab_size={vocab_size} and embed_dim={embed_dim}"
        )
    with _v1.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = None if reuse else [vocab_size, embed_dim]
        embeddings = model_variable(
            "embeddings", shape, initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        return tf.nn.embedding_lookup(embeddings, ids)


def stack(inputs, layer, stack_args, **kwargs):
    """Applies the layer repeatedly, once per element of `stack_args`; layers get numbered scopes."""
    scope = kwargs.pop("scope", None)
    kwargs.pop("reuse", None)
    with _v1.variable_scope(scope, "Stack", [inputs]):
        for index, args in enumerate(stack_args, 1):
            args = args if isinstance(args, (list, tuple)) else [args]
            inputs = layer(inputs, *args, scope=f"{_function_name(layer)}_{index}", **kwargs)
        return inputs


def repeat(inputs, repetitions, layer, *args, **kwargs):
    """Applies the layer `repetitions` times with the same arguments."""
    scope = kwargs.pop("scope", None)
    name = _function_name(layer)
    with _v1.variable_scope(scope, "Repeat", [inputs]):
        for index in range(1, repetitions + 1):
            inputs = layer(inputs, *args, scope=f"{(scope or name).rpartition('/')[2]}_{index}", **kwargs)
        return inputs


def _function_name(layer):
    return getattr(layer, "func", layer).__name__


def _keras_data_format(data_format):
    formats = {None: "channels_last", "NHWC": "channels_last", "NCHW": "channels_first"}
    if data_format not in formats:
        raise ValueError(f"data_format={data_format!r}: use 'NHWC' or 'NCHW'")
    return formats[data_format]


def _check_no_variables_collections(variables_collections):
    if variables_collections:
        raise ValueError(
            f"variables_collections={variables_collections!r} is not supported; remove it, and get variables from "
            "tf.contrib.framework.get_variables"
        )
