"""Mixed precision: models that compute in 16 bits with float32 variables, by Keras' mixed_* dtype policies."""

from collections.abc import Callable
from typing import Any

from estimator_train._engine.keras.adapter import Adapter
from estimator_train._engine.keras.protocols import Layer, Model
from estimator_train._engine.remedies import UnsuitableError


def clone_with_precision(adapter: Adapter, model: Model, precision: str | None) -> Model:
    """Clones `model` with layers that compute in "bfloat16" or "float16", unless they have another explicit dtype."""
    if precision is None:
        return adapter.clone(model)
    outputs = set(adapter.output_names(model) or ())

    def clone_layer(layer: Layer) -> Layer:
        if layer.name in outputs or isinstance(layer, adapter.preprocessing):
            return adapter.clone_layer(layer, lambda config: config)
        return adapter.clone_layer(layer, lambda config: _mixed(config, precision))

    return adapter.clone(model, clone_layer)


def build_with_precision(adapter: Adapter, build: Callable[[], Model], precision: str | None) -> Model:
    """Calls `build` with Keras' global dtype policy set to `precision`, or unchanged if that is None."""
    if precision is None:
        return build()
    policies = adapter.keras.mixed_precision
    before = policies.global_policy()
    try:
        policies.set_global_policy(f"mixed_{precision}")
        model = build()
    finally:
        policies.set_global_policy(before)
    if adapter.scales_loss(model):  # compile() has wrapped the optimizer; `scale_loss` does so later
        model.optimizer = adapter.without_loss_scale(model.optimizer)
    return model


def scale_loss(adapter: Adapter, model: Model) -> None:
    """Makes the optimizer scale the loss, so that gradients survive float16; UnsuitableError if it cannot."""
    if adapter.scales_loss(model):
        return
    try:
        model.optimizer = adapter.keras.mixed_precision.LossScaleOptimizer(model.optimizer)
    except TypeError as error:
        raise UnsuitableError(
            f'mixed_precision="float16" scales the loss, which {type(model.optimizer).__name__} does not support; use '
            'a Keras optimizer, or "bfloat16".'
        ) from error


def _mixed(config: Any, precision: str) -> Any:
    """Replaces float32 by the mixed policy in the configuration of a layer and the layers in it."""
    if isinstance(config, list):
        return [_mixed(each, precision) for each in config]
    if not isinstance(config, dict) or config.get("class_name") in ("InputLayer", "__keras_tensor__"):
        return config
    mixed = {key: _mixed(value, precision) for key, value in config.items()}
    policy = f"mixed_{precision}"
    if config.get("dtype") == "float32":
        mixed["dtype"] = policy
    elif config.get("class_name") == "DTypePolicy" and config["config"]["name"] == "float32":  # Keras 3's
        mixed["config"] = {"name": policy}
    return mixed
