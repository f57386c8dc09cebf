"""Clones compiled Keras 3 models, unchanged or with layers that compute in 16 bits."""

import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from estimator_train._engine.keras import private_keras
from estimator_train._engine.keras.adapter import compile_by_config
from estimator_train._engine.keras.keras3 import private_keras3
from estimator_train._engine.keras.protocols import CloneLayer

PREPROCESSING = (
    *(layers.CategoryEncoding, layers.Discretization, layers.Hashing, layers.HashedCrossing, layers.IntegerLookup),
    *(layers.Normalization, layers.StringLookup, layers.TextVectorization),
)
REFUSES_LAMBDA = "safe_mode=False"  # in Keras' message when it does not load a lambda


def clone(model: keras.Model, clone_layer: CloneLayer | None) -> keras.Model:
    try:
        return _clone(model, clone_layer)
    except ValueError as error:
        if REFUSES_LAMBDA not in str(error):
            raise
    with private_keras3.deserialized_lambdas():
        return _clone(model, clone_layer)


def _clone(model: keras.Model, clone_layer: CloneLayer | None) -> keras.Model:
    copy = _clone_layers(model, clone_layer)
    _copy_trainable(copy, model)
    if not compile_by_config(keras, copy, model):
        copy.compile(**_compile_arguments(model))
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


def _clone_layers(model: keras.Model, own_clone_layer: CloneLayer | None) -> keras.Model:
    if isinstance(model, keras.Sequential) or isinstance(model, private_keras3.functional_class()):  # noqa: SIM101
        copy = _clone_graph(model, own_clone_layer or clone_layer)
    elif own_clone_layer is None:
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


def clone_layer(layer: layers.Layer, change: Callable[[Any], Any] = lambda config: config) -> layers.Layer:
    if isinstance(layer, layers.Lambda):  # its configuration lacks the globals that the code refers to
        policy = change(keras.saving.serialize_keras_object(layer.dtype_policy))
        return type(layer)(layer.function, mask=layer.mask, arguments=layer.arguments, name=layer.name, dtype=policy)
    return type(layer).from_config(change(layer.get_config()))


def _copy_trainable(copy: keras.Model, model: keras.Model) -> None:
    for ours, theirs in zip(all_layers(copy), all_layers(model), strict=True):
        ours.trainable = theirs.trainable  # parents come first, because they also freeze their children
    for ours, theirs in zip(copy.weights, model.weights, strict=False):  # a copy may create more when first called
        if ours.trainable != theirs.trainable:
            ours.trainable = theirs.trainable


def _compile_arguments(model: keras.Model) -> dict[str, Any]:
    arguments = private_keras.compile_arguments(model)
    arguments["optimizer"] = _clone_optimizer(arguments["optimizer"])
    for kind in ("metrics", "weighted_metrics"):
        arguments[kind] = keras.tree.map_structure(_clone_metric, arguments[kind])
    if arguments["jit_compile"]:
        arguments["jit_compile"] = "auto"  # Keras has resolved it for the model; on replicas it means no XLA
    scales_loss = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    return arguments | {"auto_scale_loss": scales_loss}


def _clone_metric(metric: Any) -> Any:
    if not isinstance(metric, keras.metrics.Metric):
        return metric
    config = metric.get_config()
    copy = type(metric).from_config(config)
    _, *parameters = inspect.signature(type(metric).__init__).parameters.values()
    # The configurations of some metrics lack arguments, such as the axis of CosineSimilarity.
    is_complete = all(each.name in config for each in parameters)
    if isinstance(metric, keras.metrics.MeanMetricWrapper) and not is_complete:
        private_keras3.function_arguments(copy).update(private_keras3.function_arguments(metric))
    return copy


def _clone_optimizer(optimizer: keras.optimizers.Optimizer) -> Any:
    if not isinstance(optimizer, keras.optimizers.Optimizer):  # a name, say
        return optimizer
    config = optimizer.get_config()
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return type(optimizer)(**config | {"inner_optimizer": _clone_optimizer(optimizer.inner_optimizer)})
    rate = learning_rate_or_schedule(optimizer)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        config["learning_rate"] = rate  # it has no state
    copy = type(optimizer).from_config(config)
    if getattr(optimizer, "weight_decay", None):
        new = type(optimizer).from_config(config)
        variables, names = private_keras3.weight_decay_exclusions(optimizer, new)
        if variables:
            raise ValueError("The optimizer excludes variables from weight decay; exclude them by name instead.")
        if names:
            copy.exclude_from_weight_decay(var_names=names)
    return copy


def learning_rate_or_schedule(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns the variable of a constant learning rate, or the schedule."""
    rate = optimizer.learning_rate
    return rate if isinstance(rate, keras.Variable) else private_keras3.learning_rate_or_schedule(optimizer)
