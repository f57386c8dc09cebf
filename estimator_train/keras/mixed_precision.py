"""Models that compute in 16 bits, with variables of 32: by Keras' policies mixed_bfloat16 and mixed_float16."""

from __future__ import annotations

import tf_keras as keras


def clone_layer(model, precision):
    """The function by which `keras.models.clone_model` makes the layers of `model` compute in that precision.

    Those that give the outputs stay in float32, as do preprocessing layers, and those with another type of their own.
    `precision`: "bfloat16" or "float16".
    """
    outputs = set(model.output_names or ())

    def clone(layer):
        if layer.name in outputs or isinstance(layer, keras.layers.experimental.preprocessing.PreprocessingLayer):
            return type(layer).from_config(layer.get_config())
        return type(layer).from_config(_mixed(layer.get_config(), precision))

    return clone


def build(build_model, precision):
    """Returns what `build_model` builds while Keras' global policy has that precision; None leaves the policy alone."""
    if precision is None:
        return build_model()
    before = keras.mixed_precision.global_policy()
    try:
        keras.mixed_precision.set_global_policy(f"mixed_{precision}")
        model = build_model()
    finally:
        keras.mixed_precision.set_global_policy(before)
    if isinstance(model.optimizer, keras.mixed_precision.LossScaleOptimizer):
        wrapped = model.optimizer.inner_optimizer  # by compile(), which `scale_loss` does around the given state
        model.optimizer = type(wrapped).from_config(wrapped.get_config())
    return model


def scale_loss(model):
    """Makes the optimizer scale the loss of `model`, so that small gradients do not become zero in float16.

    Raises:
      ValueError: the optimizer is none of Keras' own.
    """
    if isinstance(model.optimizer, keras.mixed_precision.LossScaleOptimizer):
        return
    if not isinstance(model.optimizer, (keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)):
        raise ValueError(
            f'mixed_precision="float16" scales the loss, which {type(model.optimizer).__name__} does not know; take an '
            'optimizer of Keras, or "bfloat16".'
        )
    model.optimizer = keras.mixed_precision.LossScaleOptimizer(model.optimizer)


def _mixed(config, precision):
    """The configuration of a layer, and of those in it, with the policy in the place of float32."""
    if isinstance(config, list):
        return [_mixed(each, precision) for each in config]
    if not isinstance(config, dict) or config.get("class_name") == "InputLayer":
        return config
    mixed = {key: _mixed(value, precision) for key, value in config.items()}
    if config.get("dtype") == "float32":
        mixed["dtype"] = f"mixed_{precision}"
    return mixed
