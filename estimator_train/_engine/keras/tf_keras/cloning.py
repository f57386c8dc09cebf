"""Copies a compiled Keras model to new variables without losing any of its state.

`ModelSource` copies models of both Keras generations; the functions below it clone a tf_keras model.
"""

from __future__ import annotations

import contextlib
import inspect
import weakref

import tensorflow as tf
import tf_keras as keras
from tf_keras import layers

from estimator_train._engine.checkpoints import object_based
from estimator_train._engine.keras import graph_mode, placement, private_keras, private_tensorflow
from estimator_train._engine.keras.tf_keras import private_tf_keras
from estimator_train._engine.keras.unsuitable import UnsuitableModelError

ADVICE = (
    "Pass a function without arguments that builds and compiles the model instead: "
    "model_to_estimator(keras_model=build_model)."
)
NOT_COMPILED = (
    "The given keras model has not been compiled yet. "
    "Please compile the model with `model.compile()` before calling `model_to_estimator()`."
)


class ModelSource:
    """Makes copies of a compiled Keras model with the state that the model had when it was passed in.

    The given model is read once and never changed. Its state (weights, statistics, lookup tables, optimizer) is kept in
    memory.

    Attributes:
      adapter: the adapter for the model's Keras; see `generations`.

    Raises:
      ValueError: the model is not compiled, or cannot be copied.
    """

    def __init__(self, adapter, given, build=None, custom_objects=None, clone_layer=None, seed=None):
        """Reads the state of `given`.

        Args:
          adapter: the adapter for the model's Keras.
          given: a compiled Keras model.
          build: the function that returned it; None clones the model.
          custom_objects: dict of names to custom classes and functions.
          clone_layer: function that makes a copy's layer from a layer of `given`; None copies it, on its device.
          seed: seed of the initial weights, for a model made with eager execution off whose weights are not set.
        """
        adapter.check(given)
        given = adapter.in_eager_mode(given, custom_objects, seed)
        self.adapter = adapter
        self._scales_loss = adapter.scales_loss(given)
        self._given = [weakref.ref(variable) for variable in self._trained(given)]
        if given.run_eagerly:
            tf.get_logger().warning(
                "The model is compiled with run_eagerly=True, which the Estimator ignores: its steps are compiled. To "
                "debug them in Python, use the model's own fit."
            )
        self._state = object_based.StateInMemory(adapter.saved_parts(given))
        self._has_slots = adapter.has_slots(given)
        # An object-based checkpoint lacks only this state: the table of an adapted vocabulary is a constant.
        self._vocabularies = [_vocabulary(layer) for layer in adapter.lookups(given)]
        if build is None:
            # Copies are made from a copy made now, so that later changes of the user's model have no effect.
            template = self._with_state(lambda: adapter.clone(given, custom_objects, clone_layer))
            self._build = lambda precision: adapter.clone(
                template, custom_objects, precision and adapter.clone_layer_with(template, precision)
            )
        else:
            self._build = lambda precision: adapter.build_with_precision(build, precision)

    def copy(self, strategy, precision=None):
        """Returns a compiled copy with its own variables, created in the scope of `strategy`.

        `precision` is "bfloat16" or "float16", see `mixed_precision`; None keeps the model's.
        """
        if precision is not None and self._scales_loss:
            raise UnsuitableModelError(
                "The model scales its loss, so it already uses mixed precision; leave out mixed_precision."
            )
        with strategy.scope():
            copy = self._with_state(lambda: self._build(precision))
            if precision == "float16":
                self.adapter.scale_loss(copy)
            return copy

    def take_weights(self, path):
        """Replaces the weights that the checkpoint at prefix `path` has, and logs which ones it lacks.

        Raises:
          CheckpointError: see `object_based.take_weights`.
        """
        parts = self.adapter.saved_parts(self.copy(tf.distribute.get_strategy()))
        differences = object_based.take_weights(parts, path)
        self._state = object_based.StateInMemory(parts)
        tf.get_logger().info("Warm-starting from %s", path)
        if differences:
            tf.get_logger().warning("These weights keep their own values: %s", "; ".join(differences))

    def check_variables(self, copy, used):
        """Raises ValueError if `used`, the variables of a function of `copy`, include some that the given model trains.

        A copy shares functions with the given model, such as those of Lambda layers and losses, which may refer to its
        variables.
        """
        own = set(map(id, self._trained(copy)))
        given = {id(each()) for each in self._given} - own - {id(None)}
        foreign = [variable.name for variable in used if id(variable) in given]
        if foreign:
            raise ValueError(
                f"A Lambda layer, a loss or another function of the model {copy.name} uses its variable {foreign[0]}, "
                f"but the Estimator trains a copy, whose functions would still use the original's. {ADVICE}"
            )

    def _trained(self, model):
        """Returns the variables that `model` trains, with those of each replica."""
        variables = self.adapter.trainable_variables(model)
        return [each for variable in variables for each in (variable, *getattr(variable, "values", ()))]

    def _with_state(self, build):
        model = build()
        if self._has_slots:
            self.adapter.build_slots(model)
        try:
            for layer, (vocabulary, idf_weights) in zip(self.adapter.lookups(model), self._vocabularies, strict=True):
                if vocabulary and not _vocabulary(layer)[0]:
                    layer.set_vocabulary(vocabulary, *([] if idf_weights is None else [idf_weights]))
            self._state.restore_to(self.adapter.saved_parts(model))
        except ValueError as error:
            raise ValueError(
                f"Cannot copy the model {model.name}, because a copy has other weights: {error} {ADVICE}"
            ) from error
        self.adapter.finalize_state(model)
        return model


def finalize_state(model):
    """Makes layers use restored state; Normalization computes with tensors derived from its variables."""
    for layer in layers_within(model):
        layer.finalize_state()


def statistics(model):
    """Returns the weights that `finalize_state` reads, as a list of bytes."""
    readers = [layer for layer in layers_within(model) if type(layer).finalize_state is not layers.Layer.finalize_state]
    return [weight.tobytes() for layer in readers for weight in layer.get_weights()]


def lookups(model):
    return [layer for layer in layers_within(model) if isinstance(layer, (layers.StringLookup, layers.IntegerLookup))]


def layers_within(layer):
    """Returns a list of all layers within a tf_keras layer or model; `submodules` fails for an LSTM with dropout."""
    return [part for part in object_based.parts_by_key(layer).values() if isinstance(part, layers.Layer)]


def _vocabulary(layer):
    """Returns the vocabulary and the inverse document frequencies of a lookup layer, without special tokens."""
    vocabulary = layer.get_vocabulary(include_special_tokens=False)
    if layer.output_mode != "tf_idf" or not vocabulary:
        return vocabulary, None
    return vocabulary, layer.idf_weights.numpy()[-len(vocabulary) :]


def check(model):
    """Raises ValueError if `model`, a `tf_keras.Model`, is not compiled, or compiled with parts of Keras 3."""
    if not model.optimizer:
        raise ValueError(NOT_COMPILED)
    foreign = foreign_parts(model, "keras")
    if foreign:
        raise ValueError(
            f"The tf_keras model {model.name} is compiled with {foreign[0]!r} of Keras 3; use its tf_keras counterpart."
        )


def foreign_parts(model, package):
    """Returns the objects that `model` is compiled with whose classes are from `package`, a list."""
    arguments = private_keras.compile_arguments(model)
    parts = tf.nest.flatten([arguments.get(kind) for kind in ("optimizer", "loss", "metrics", "weighted_metrics")])
    return [part for part in parts if any(base.__module__.split(".")[0] == package for base in type(part).__mro__)]


def clone(model, custom_objects, clone_layer=None):
    """Returns a compiled model with the same layers and settings, and new variables."""
    with keras.utils.custom_object_scope(custom_objects or {}):
        try:
            copy = _clone_layers(model, clone_layer)
            _copy_the_rest(copy, model)
            _compile_like(copy, model)
            if placement.kept(copy):
                _update_without_xla(copy)
        except (TypeError, ValueError, NotImplementedError, AttributeError) as error:  # Keras raises any of them
            raise UnsuitableModelError(f"Cannot copy the model {model.name}: {error} {ADVICE}") from error
    return copy


def in_eager_mode(model, custom_objects, seed):
    """Returns `model`, or for a model made in a v1 graph, an eager copy with its weights and a new optimizer."""
    if graph_mode.graph_of(model) is None:
        return model
    weights = graph_mode.initial_weights(model, custom_objects, seed)
    copy = clone(model, custom_objects)
    copy.set_weights(weights)
    return copy


def _clone_layers(model, clone_layer):
    _check_that_layers_are_called_once(model)
    clone = keras.models.clone_model(model, clone_function=clone_layer or placement.kept(model))
    if type(clone) is type(model):
        return clone
    # Keras clones a subclass of a functional or Sequential model as the base class.
    if isinstance(model, keras.Sequential):
        inputs = [keras.Input(type_spec=clone.inputs[0].type_spec)] if clone.inputs else []
        return type(model)([*inputs, *clone.layers], name=model.name)
    _, *parameters = inspect.signature(type(model).__init__).parameters.values()
    if any(parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in parameters):
        raise ValueError(f"{type(model).__name__}() takes arguments that Keras does not know.")
    return type(model)(clone.input, clone.output, name=model.name)


def _check_that_layers_are_called_once(model):
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


def _copy_arguments(original, copy):
    """Copies the arguments that configurations lack to `copy`."""
    for kind, names in _NOT_IN_CONFIG.items():
        for name in names if isinstance(original, kind) else ():
            if hasattr(original, name):  # it may be newer than the oldest tf_keras
                setattr(copy, name, getattr(original, name))


def _copy_the_rest(clone, model):
    """Copies what configurations lack, and freezes the layers that are frozen in `model`.

    Raises:
      ValueError: a loss that was added to a layer, or a frozen layer, would be lost.
    """
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


def _compile_like(clone, model):
    if type(model).compile is not keras.Model.compile:
        if type(model).compile_from_config is keras.Model.compile_from_config:
            raise ValueError(
                f"{type(model).__name__} overrides compile() but not get_compile_config() and compile_from_config()."
            )
        clone.compile_from_config(model.get_compile_config())
        return
    graph = graph_mode.graph_of(model)
    arguments = private_keras.compile_arguments(model) if graph is None else graph_mode.compile_arguments(model)
    arguments["optimizer"] = tf.nest.map_structure(lambda each: clone_optimizer(each, graph), model.optimizer)
    for kind in ("metrics", "weighted_metrics"):
        arguments[kind] = tf.nest.map_structure(lambda metric: _clone_metric(metric, model), arguments[kind])
    clone.compile(**arguments)


def _update_without_xla(model):
    """Turns off XLA in the optimizers' updates, because it does not support variables on several devices."""
    for optimizer in tf.nest.flatten(model.optimizer):
        getattr(optimizer, "inner_optimizer", optimizer).jit_compile = False


def _clone_metric(metric, model):
    if not isinstance(metric, keras.metrics.Metric):
        return metric
    config = metric.get_config()
    named = graph_mode.graph_of(model) is not None or model.compiled_metrics.built
    if named and len(model.output_names) > 1:  # Keras has prefixed the output's name
        prefixes = [f"{output}_" for output in model.output_names if metric.name.startswith(f"{output}_")]
        config["name"] = metric.name.removeprefix(max(prefixes, key=len, default=""))
    return type(metric).from_config(config)


def clone_optimizer(optimizer, graph=None):
    """Clones an optimizer; `graph` is the v1 graph that may contain its settings as variables, or None."""
    wrapped = getattr(optimizer, "optimizer", None)
    if isinstance(wrapped, tf.compat.v1.train.Optimizer):  # in Keras' wrapper
        return graph_mode.without_graph(private_tensorflow.copy_v1_optimizer(wrapped))
    with contextlib.nullcontext() if graph is None else graph.as_default():
        config = optimizer.get_config()
    clone = type(optimizer).from_config(config)
    ours, theirs = (getattr(each, "inner_optimizer", each) for each in (clone, optimizer))  # of a LossScaleOptimizer
    variables, names = private_tf_keras.weight_decay_exclusions(theirs)
    if variables:
        raise ValueError("The optimizer excludes variables from weight decay; exclude them by name instead.")
    if names:
        ours.exclude_from_weight_decay(var_names=names)
    _copy_arguments(theirs, ours)
    return clone
