"""Mixed precision: models that compute in 16 bits with float32 variables, by Keras' mixed_* dtype policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tf_keras as keras

from estimator_train._engine.keras.protocols import CloneLayer
from estimator_train._engine.keras.tf_keras.cloning import clone_optimizer
from estimator_train._engine.remedies import UnsuitableError

_PREPROCESSING = (
    keras.layers.experimental.preprocessing.PreprocessingLayer,
    *(keras.layers.CategoryEncoding, keras.layers.Hashing, keras.layers.HashedCrossing),  # not derived from it
)


def clone_layer_with(model: keras.Model, precision: str) -> CloneLayer:
    """See `Adapter.clone_layer_with`."""
    outputs = set(model.output_names or ())

    def clone(layer: keras.layers.Layer) -> keras.layers.Layer:
        if layer.name in outputs or isinstance(layer, _PREPROCESSING):
            return type(layer).from_config(layer.get_config())
        return type(layer).from_config(_mixed(layer.get_config(), precision))

    return clone


def build_with_precision(build: Callable[[], keras.Model], precision: str | None) -> keras.Model:
    """See `Adapter.build_with_precision`."""
    if precision is None:
        return build()
    before = keras.mixed_precision.global_policy()
    try:
        keras.mixed_precision.set_global_policy(f"mixed_{precision}")
        model = build()
    finally:
        keras.mixed_precision.set_global_policy(before)
    if isinstance(model.optimizer, keras.mixed_precision.LossScaleOptimizer):
        # compile() has wrapped it; `scale_loss` does so later.
        model.optimizer = clone_optimizer(model.optimizer.inner_optimizer)
    return model


def scale_loss(model: keras.Model) -> None:
    """See `Adapter.scale_loss`."""
    if isinstance(model.optimizer, keras.mixed_precision.LossScaleOptimizer):
        return
    if not isinstance(model.optimizer, (keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)):
        raise UnsuitableError(
            f'mixed_precision="float16" scales the loss, which {type(model.optimizer).__name__} does not support; use '
            'a Keras optimizer, or "bfloat16".'
        )
    model.optimizer = keras.mixed_precision.LossScaleOptimizer(model.optimizer)


def _mixed(config: Any, precision: str) -> Any:
    """Replaces float32 by the mixed policy in the configuration of a layer and the layers in it."""
    if isinstance(config, list):
        return [_mixed(each, precision) for each in config]
    if not isinstance(config, dict) or config.get("class_name") == "InputLayer":
        return config
    mixed = {key: _mixed(value, precision) for key, value in config.items()}
    if config.get("dtype") == "float32":
        mixed["dtype"] = f"mixed_{precision}"
    return mixed
