"""Clones compiled Keras 3 models, unchanged or with layers that compute in 16 bits."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from estimator_train._engine.keras import private_keras
from estimator_train._engine.keras.keras3 import private_keras3
from estimator_train._engine.keras.protocols import CloneLayer
from estimator_train._engine.keras.source import ADVICE

_PREPROCESSING = (
    *(layers.CategoryEncoding, layers.Discretization, layers.Hashing, layers.HashedCrossing, layers.IntegerLookup),
    *(layers.Normalization, layers.StringLookup, layers.TextVectorization),
)


def clone(model: keras.Model, clone_layer: CloneLayer | None = None) -> keras.Model:
    """See `Adapter.clone`."""
    try:
        with private_keras3.deserialized_lambdas():
            copy = _clone_layers(model, clone_layer)
            _copy_trainable(copy, model)
            _compile_like(copy, model)
    except (TypeError, ValueError, NotImplementedError, AttributeError) as error:  # Keras raises any of them
        raise ValueError(f"Cannot copy the model {model.name}: {error} {ADVICE}") from error
    return copy


def all_layers(model: keras.Model) -> list[layers.Layer]:
    """Returns a list of `model` and all layers below it, with parents before their children."""
    found = {id(model): model}
    for layer in (queue := [model]):
        for sublayer in private_keras3.sublayers(layer):
            if id(sublayer) not in found:
                found[id(sublayer)] = sublayer
                queue.append(sublayer)
    return list(found.values())


def output_names(model: keras.Model) -> list[str] | None:
    """Returns a list of the names of the model's outputs, or None if they are unknown."""
    if isinstance(model, keras.Sequential) and model.layers:
        return [model.layers[-1].name]
    return getattr(model, "output_names", None)


def _clone_layers(model: keras.Model, clone_layer: CloneLayer | None) -> keras.Model:
    if isinstance(model, (keras.Sequential, private_keras3.functional_class())):
        copy = _clone_graph(model, clone_layer or _clone_layer)
    elif clone_layer is None:
        copy = _clone_subclassed(model)
    else:
        raise ValueError(f"{type(model).__name__} creates its layers itself.")
    for one, other in zip(all_layers(copy), all_layers(model), strict=True):
        if type(one) is not type(other):
            raise ValueError(f"{type(other).__name__}() takes arguments that Keras does not know.")
        if other.built and not one.built:
            raise ValueError(f"{other.name} is built, but its copy is not built before it is first called.")
    return copy


def _clone_graph(model: keras.Model, clone_layer: CloneLayer) -> keras.Model:
    model.compiled = False  # otherwise Keras compiles the clone from a configuration, which loses lambdas
    try:
        return keras.models.clone_model(model, clone_function=clone_layer, recursive=True)
    finally:
        model.compiled = True


def _clone_subclassed(model: keras.Model) -> keras.Model:
    config = model.get_config()
    if type(model).get_config is keras.Model.get_config:
        # The default configuration includes settings of Layer, which not every model's constructor takes.
        parameters = inspect.signature(type(model).__init__).parameters
        if all(parameter.kind != parameter.VAR_KEYWORD for parameter in parameters.values()):
            config = {name: value for name, value in config.items() if name in parameters}
    copy = type(model).from_config(config)
    if model.built:
        copy.build_from_config(model.get_build_config())
        copy.built = True
    return copy


def _clone_layer(layer: layers.Layer) -> layers.Layer:
    if isinstance(layer, layers.Lambda):  # its configuration lacks the globals that the code refers to
        return _like_lambda(layer, layer.dtype_policy)
    return type(layer).from_config(layer.get_config())


def _like_lambda(layer: layers.Layer, policy: keras.DTypePolicy | dict) -> layers.Layer:
    return type(layer)(layer.function, mask=layer.mask, arguments=layer.arguments, name=layer.name, dtype=policy)


def _copy_trainable(copy: keras.Model, model: keras.Model) -> None:
    for ours, theirs in zip(all_layers(copy), all_layers(model), strict=True):
        ours.trainable = theirs.trainable  # parents come first, because they also freeze their children
    for ours, theirs in zip(copy.weights, model.weights, strict=False):  # a copy may create more when first called
        if ours.trainable != theirs.trainable:
            ours.trainable = theirs.trainable


def _compile_like(copy: keras.Model, model: keras.Model) -> None:
    if type(model).compile is not keras.Model.compile:
        if type(model).compile_from_config is keras.Model.compile_from_config:
            raise ValueError(
                f"{type(model).__name__} overrides compile() but not get_compile_config() and compile_from_config()."
            )
        copy.compile_from_config(model.get_compile_config())
        return
    arguments = private_keras.compile_arguments(model)
    arguments["optimizer"] = _clone_optimizer(arguments["optimizer"])
    for kind in ("metrics", "weighted_metrics"):
        arguments[kind] = keras.tree.map_structure(_clone_metric, arguments[kind])
    if arguments["jit_compile"]:
        arguments["jit_compile"] = "auto"  # Keras has resolved it for the model; on replicas it means no XLA
    copy.compile(**arguments, auto_scale_loss=scales_loss(model))


def _clone_metric(metric: Any) -> Any:
    if not isinstance(metric, keras.metrics.Metric):
        return metric
    copy = type(metric).from_config(metric.get_config())
    if isinstance(metric, keras.metrics.MeanMetricWrapper):
        # The configurations of some metrics lack arguments, such as the axis of CosineSimilarity.
        private_keras3.function_arguments(copy).update(private_keras3.function_arguments(metric))
    return copy


def _clone_optimizer(optimizer: keras.optimizers.Optimizer) -> Any:
    if not isinstance(optimizer, keras.optimizers.Optimizer):  # a name, say
        return optimizer
    config = optimizer.get_config()
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return type(optimizer)(**config | {"inner_optimizer": _clone_optimizer(optimizer.inner_optimizer)})
    rate = private_keras3.learning_rate_or_schedule(optimizer)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        config["learning_rate"] = rate  # it has no state
    copy = type(optimizer).from_config(config)
    variables, names = private_keras3.weight_decay_exclusions(optimizer)
    if variables:
        raise ValueError("The optimizer excludes variables from weight decay; exclude them by name instead.")
    if names:
        copy.exclude_from_weight_decay(var_names=names)
    return copy


# 16 bits


def scales_loss(model: keras.Model) -> bool:
    """Returns whether the optimizer of `model` scales the loss."""
    return isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)


def clone_layer_with(model: keras.Model, precision: str) -> CloneLayer:
    """See `Adapter.clone_layer_with`."""
    outputs = set(output_names(model) or ())

    def clone_layer(layer: keras.layers.Layer) -> keras.layers.Layer:
        if layer.name in outputs or isinstance(layer, _PREPROCESSING):
            return _clone_layer(layer)
        if isinstance(layer, layers.Lambda):
            return _like_lambda(layer, _mixed(keras.saving.serialize_keras_object(layer.dtype_policy), precision))
        return type(layer).from_config(_mixed(layer.get_config(), precision))

    return clone_layer


def build_with_precision(build: Callable[[], keras.Model], precision: str | None) -> keras.Model:
    """See `Adapter.build_with_precision`."""
    before = keras.config.dtype_policy()
    try:
        if precision is not None:
            keras.config.set_dtype_policy(f"mixed_{precision}")
        model = build()
    finally:
        keras.config.set_dtype_policy(before)
    if precision is not None and scales_loss(model):
        model.optimizer = model.optimizer.inner_optimizer  # compile() has wrapped it; `scale_loss` does so later
    return model


def _mixed(config: Any, precision: str) -> Any:
    """Replaces float32 by the mixed policy in the configuration of a layer and the layers in it."""
    if isinstance(config, list):
        return [_mixed(each, precision) for each in config]
    if not isinstance(config, dict) or config.get("class_name") == "InputLayer":
        return config
    if config.get("class_name") == "DTypePolicy":
        if config["config"]["name"] != "float32":
            return config
        return config | {"config": config["config"] | {"name": f"mixed_{precision}"}}
    return {key: _mixed(value, precision) for key, value in config.items()}
