"""Clones a tf_keras model."""

import contextlib
import copy
import inspect
from typing import Any

import tensorflow as tf
import tf_keras as keras
from tf_keras import layers

from estimator_train._engine.checkpoints import object_based
from estimator_train._engine.keras import private_tensorflow
from estimator_train._engine.keras.adapter import compile_by_config
from estimator_train._engine.keras.protocols import CloneLayer
from estimator_train._engine.keras.tf_keras import graph_mode, placement, private_tf_keras

PREPROCESSING = (
    layers.experimental.preprocessing.PreprocessingLayer,
    *(layers.CategoryEncoding, layers.Hashing, layers.HashedCrossing),  # not derived from it
)


def layers_within(model: keras.Model) -> list[layers.Layer]:
    """Returns a list of all layers within a tf_keras model; `submodules` fails for an LSTM with dropout."""
    return [part for part in object_based.parts_by_key(model).values() if isinstance(part, layers.Layer)]


def clone(model: keras.Model, clone_layer: CloneLayer | None) -> keras.Model:
    copy = _clone_layers(model, clone_layer)
    _copy_the_rest(copy, model)
    _leave_shapes_to_layers(copy)
    if not compile_by_config(keras, copy, model):
        copy.compile(**_compile_arguments(model))
    if placement.kept(copy):
        for optimizer in tf.nest.flatten(copy.optimizer):  # XLA does not support variables on several devices
            getattr(optimizer, "inner_optimizer", optimizer).jit_compile = False
    return copy


def _clone_layers(model: keras.Model, clone_layer: CloneLayer | None) -> keras.Model:
    _check_that_layers_are_called_once(model)
    clone = keras.models.clone_model(model, clone_function=clone_layer or placement.kept(model))
    if type(clone) is type(model):
        return clone
    # Keras clones a subclass of a functional or Sequential model as the base class.
    if isinstance(model, keras.Sequential):
        inputs = [keras.Input(type_spec=tensor.type_spec) for tensor in clone.inputs or ()]
        return type(model)([*inputs, *clone.layers], name=model.name)
    _, *parameters = inspect.signature(type(model).__init__).parameters.values()
    if any(parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in parameters):
        raise ValueError(f"{type(model).__name__}() takes arguments that Keras does not know.")
    return type(model)(clone.input, clone.output, name=model.name)


def _leave_shapes_to_layers(model: keras.Model) -> None:
    """Lets a model take features of other shapes than its Inputs', as in tf.estimator, if its layers take them."""
    # Programs train on (28, 28) and serve (784,), for example, with a model that begins with Flatten.
    if placement.is_graph(model) and model.input_spec is not None:
        model.input_spec = tf.nest.map_structure(_without_shape, model.input_spec)


def _without_shape(spec: layers.InputSpec) -> layers.InputSpec:
    spec = copy.copy(spec)
    spec.shape = spec.ndim = None
    return spec


def _check_that_layers_are_called_once(model: keras.Model) -> None:
    """Refuses a Sequential model that uses a layer twice, because Keras leaves out the second use in copies."""
    if not placement.is_graph(model):
        return
    if isinstance(model, keras.Sequential):
        calls = [node.layer for nodes in private_tf_keras.nodes_by_depth(model).values() for node in nodes]
        for layer in calls:
            if sum(call is layer for call in calls) > 1:
                raise ValueError(f"Layer {layer.name} is used twice in the Sequential model {model.name}.")
    for layer in model.layers:
        inner = layer.layer if isinstance(layer, layers.Wrapper) else layer
        if isinstance(inner, keras.Model):
            _check_that_layers_are_called_once(inner)


# Arguments that their classes' configurations lack.
_NOT_IN_CONFIG = {
    layers.BatchNormalization: ["synchronized", "fused"],  # the former decides the latter
    layers.SpatialDropout2D: ["data_format"],
    layers.SpatialDropout3D: ["data_format"],
    layers.AlphaDropout: ["noise_shape"],
    keras.optimizers.Adam: ["adaptive_epsilon"],
}


def _copy_arguments(original: object, copy: object) -> None:
    for kind, names in _NOT_IN_CONFIG.items():
        for name in names:
            if isinstance(original, kind) and hasattr(original, name):  # it may be newer than the oldest tf_keras
                setattr(copy, name, getattr(original, name))


def _copy_the_rest(clone: keras.Model, model: keras.Model) -> None:
    """Copies what configurations lack; raises ValueError if a loss added to a layer, or a frozen layer, is lost."""
    pairs, seen = [(clone, model)], {id(model)}
    for ours, theirs in pairs:  # parents first, because they also freeze their children
        if isinstance(theirs, layers.Layer):
            ours.trainable = theirs.trainable
            _copy_arguments(theirs, ours)
            added = private_tf_keras.losses_without_inputs(theirs)
            if ours.built == theirs.built and len(private_tf_keras.losses_without_inputs(ours)) < len(added):
                raise ValueError(f"A function was passed to add_loss() of {theirs.name}, and a copy would not have it.")
        children = tf.train.TrackableView.children(ours)
        for name, child in tf.train.TrackableView.children(theirs).items():
            if name in children and id(child) not in seen:
                seen.add(id(child))
                pairs.append((children[name], child))
    for layer in layers_within(model):
        is_lost = id(layer) not in seen and not isinstance(layer, keras.metrics.Metric)
        if is_lost and not layer.trainable and layer.built and layer.weights:
            raise ValueError(f"Layer {layer.name} is frozen, but a copy only creates it when it is first called.")


def _compile_arguments(model: keras.Model) -> dict[str, Any]:
    graph = graph_mode.graph_of(model)
    arguments = graph_mode.compile_arguments(model, graph)
    arguments["optimizer"] = tf.nest.map_structure(lambda each: clone_optimizer(each, graph), model.optimizer)
    for kind in ("metrics", "weighted_metrics"):
        arguments[kind] = tf.nest.map_structure(lambda metric: _clone_metric(metric, model), arguments[kind])
    return arguments


def _clone_metric(metric: Any, model: keras.Model) -> Any:
    if not isinstance(metric, keras.metrics.Metric):
        return metric
    config = metric.get_config()
    named = graph_mode.graph_of(model) is not None or model.compiled_metrics.built
    if named and len(model.output_names) > 1:  # Keras has prefixed the output's name
        prefixes = [f"{output}_" for output in model.output_names if metric.name.startswith(f"{output}_")]
        config["name"] = metric.name.removeprefix(max(prefixes, key=len, default=""))
    return type(metric).from_config(config)


def clone_optimizer(optimizer: keras.optimizers.Optimizer, graph: tf.Graph | None = None) -> Any:
    """Clones an optimizer; `graph` is the v1 graph that may contain its settings as variables, or None."""
    wrapped = getattr(optimizer, "optimizer", None)
    if isinstance(wrapped, tf.compat.v1.train.Optimizer):  # in Keras' wrapper
        return graph_mode.without_graph(private_tensorflow.copy_v1_optimizer(wrapped))
    with contextlib.nullcontext() if graph is None else graph.as_default():
        config = optimizer.get_config()
    clone = type(optimizer).from_config(config)
    ours, theirs = (getattr(each, "inner_optimizer", each) for each in (clone, optimizer))  # of a LossScaleOptimizer
    if getattr(theirs, "weight_decay", None):
        variables, names = private_tf_keras.weight_decay_exclusions(theirs)
        if variables:
            raise ValueError("The optimizer excludes variables from weight decay; exclude them by name instead.")
        if names:
            ours.exclude_from_weight_decay(var_names=names)
    _copy_arguments(theirs, ours)
    return clone
