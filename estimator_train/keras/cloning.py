"""Copies of a compiled Keras model, each with its own variables, and none of the given model's state lost."""

from __future__ import annotations

import contextlib
import inspect

import tensorflow as tf
import tf_keras as keras
from tf_keras import layers

from estimator_train.checkpoints import object_based
from estimator_train.keras import graph_mode, mixed_precision, placement
from estimator_train.session import private_names

_ADVICE = (
    "Pass a function without arguments that builds and compiles the model instead: "
    "model_to_estimator(keras_model=build_model)."
)


class ModelSource:
    """A compiled Keras model as it is when given: makes copies of it with the same state.

    The given model is read once, and never changed. Its state (weights, statistics, lookup tables, optimizer) is kept
    in memory.

    Raises:
      ValueError: the model is not compiled, is no tf_keras model, or cannot be copied.
    """

    def __init__(self, model, custom_objects=None, clone_layer=None, seed=None):
        """`model`: a compiled `tf_keras.Model`, or a function that returns one.

        `clone_layer`: makes a layer of the copies from one of `model`; None: as it is, and on the device that it is on.
        `seed`: of the weights of a model that was made where eager execution is off, and has none yet.
        """
        with private_names.eager_classes(), private_names.eager_mode():
            self._read(model, custom_objects, clone_layer, seed)

    def _read(self, model, custom_objects, clone_layer, seed):
        is_model = isinstance(model, keras.Model)
        given = model if is_model or not callable(model) or _is_keras_3(model) else model()
        _check_compiled(given)
        if graph_mode.graph_of(given) is not None:
            given = _of_eager_mode(given, custom_objects, seed)
        self._scales_loss = isinstance(given.optimizer, keras.mixed_precision.LossScaleOptimizer)
        if given.run_eagerly:
            tf.get_logger().warning(
                "The model is compiled with run_eagerly=True, which the Estimator does not follow: its steps are "
                "compiled. To go through them in Python, use the model's own fit."
            )
        self._state = object_based.StateInMemory(given)
        # The one state that an object-based checkpoint leaves out: the table of an adapted vocabulary is a constant.
        self._vocabularies = [_vocabulary(layer) for layer in _lookups(given)]
        if is_model:
            # What is copied later is a copy made now: what the user does to the model in between is not to be seen.
            template = self._with_state(lambda: _clone(given, custom_objects, clone_layer))
            self._build = lambda precision: _clone(
                template, custom_objects, precision and mixed_precision.clone_layer(template, precision)
            )
        else:
            self._build = lambda precision: mixed_precision.build(model, precision)

    def copy(self, strategy, precision=None):
        """A compiled copy with variables of its own, made in the scope of `strategy`.

        `precision`: "bfloat16" or "float16", see `mixed_precision`; None: as the model has it.
        """
        if precision is not None and self._scales_loss:
            raise ValueError(
                "The model scales its loss, and so is of mixed precision already; leave out mixed_precision."
            )
        with strategy.scope():
            copy = self._with_state(lambda: self._build(precision))
            if precision == "float16":
                mixed_precision.scale_loss(copy)
            return copy

    def _with_state(self, build):
        model = build()
        try:
            self._state.restore_to(model)
            for layer, (vocabulary, idf_weights) in zip(_lookups(model), self._vocabularies, strict=True):
                if vocabulary and not _vocabulary(layer)[0]:
                    layer.set_vocabulary(vocabulary, *([] if idf_weights is None else [idf_weights]))
        except ValueError as error:
            raise ValueError(
                f"Cannot copy the model {model.name}, a copy has other weights: {error} {_ADVICE}"
            ) from error
        finalize_state(model)
        return model


def finalize_state(model):
    """Lets layers take up restored state: Normalization computes with tensors made of its variables."""
    for layer in _layers(model):
        layer.finalize_state()


def statistics(model):
    """The weights that `finalize_state` reads, as a list of bytes."""
    readers = [layer for layer in _layers(model) if type(layer).finalize_state is not layers.Layer.finalize_state]
    return [weight.tobytes() for layer in readers for weight in layer.get_weights()]


def _layers(model):
    return [layer for layer in model.submodules if isinstance(layer, layers.Layer)]


def _lookups(model):
    return [layer for layer in _layers(model) if isinstance(layer, (layers.StringLookup, layers.IntegerLookup))]


def _vocabulary(layer):
    """The vocabulary and the inverse document frequencies of a lookup layer, less its special tokens."""
    vocabulary = layer.get_vocabulary(include_special_tokens=False)
    if layer.output_mode != "tf_idf" or not vocabulary:
        return vocabulary, None
    return vocabulary, layer.idf_weights.numpy()[-len(vocabulary) :]


def _is_keras_3(model):
    return any(base.__module__.startswith("keras.") for base in type(model).__mro__)


def _check_compiled(model):
    if _is_keras_3(model):
        raise ValueError(
            f"{model!r} is a Keras 3 model; estimator_train trains tf_keras models. Set the environment variable "
            "TF_USE_LEGACY_KERAS=1 before TensorFlow is imported, or build the model with `import tf_keras as keras`."
        )
    if not isinstance(model, keras.Model):
        raise ValueError(f"keras_model must be a compiled tf_keras model, given: {model!r}")
    if not model.optimizer:
        raise ValueError(
            "The given keras model has not been compiled yet. "
            "Please compile the model with `model.compile()` before calling `model_to_estimator()`."
        )


def _clone(model, custom_objects, clone_layer=None):
    """A compiled model of the same layers and settings, with other variables."""
    with keras.utils.custom_object_scope(custom_objects or {}):
        try:
            clone = _clone_layers(model, clone_layer)
            _copy_trainable(clone, model)
            _compile_like(clone, model)
            if placement.kept(clone):
                _update_without_xla(clone)
        except (TypeError, ValueError, NotImplementedError, AttributeError) as error:  # Keras raises any of them
            raise ValueError(f"Cannot copy the model {model.name}: {error} {_ADVICE}") from error
    return clone


def _of_eager_mode(model, custom_objects, seed):
    """A copy, for eager mode, of a model made in a v1 graph: with its weights, and an optimizer that begins anew."""
    weights = graph_mode.initial_weights(model, custom_objects, seed)
    copy = _clone(model, custom_objects)
    copy.set_weights(weights)
    return copy


def _clone_layers(model, clone_layer):
    clone = keras.models.clone_model(model, clone_function=clone_layer or placement.kept(model))
    if type(clone) is type(model):
        return clone
    # Keras clones a functional or Sequential model of the user's class without the class.
    if isinstance(model, keras.Sequential):
        inputs = [keras.Input(type_spec=clone.inputs[0].type_spec)] if clone.inputs else []
        return type(model)([*inputs, *clone.layers], name=model.name)
    _, *parameters = inspect.signature(type(model).__init__).parameters.values()
    if any(parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in parameters):
        raise ValueError(f"{type(model).__name__}() takes arguments that Keras does not know of.")
    return type(model)(clone.input, clone.output, name=model.name)


def _copy_trainable(clone, model):
    """Freezes what is frozen in `model`: configurations carry it of some layers only."""
    pairs, seen = [(clone, model)], {id(model)}
    for ours, theirs in pairs:  # parents first, for they freeze what is below them
        if isinstance(theirs, layers.Layer):
            ours.trainable = theirs.trainable
        children = tf.train.TrackableView.children(ours)
        for name, child in tf.train.TrackableView.children(theirs).items():
            if name in children and id(child) not in seen:
                seen.add(id(child))
                pairs.append((children[name], child))
    for layer in _layers(model):
        is_lost = id(layer) not in seen and not isinstance(layer, keras.metrics.Metric)
        if is_lost and not layer.trainable and layer.built and layer.weights:
            raise ValueError(f"Layer {layer.name} is frozen, and is not there before the copy is first called.")


def _compile_like(clone, model):
    if type(model).compile is not keras.Model.compile:
        if type(model).compile_from_config is keras.Model.compile_from_config:
            raise ValueError(
                f"{type(model).__name__} overrides compile() but not get_compile_config() and compile_from_config()."
            )
        clone.compile_from_config(model.get_compile_config())
        return
    graph = graph_mode.graph_of(model)
    arguments = private_names.compile_arguments(model) if graph is None else graph_mode.compile_arguments(model)
    arguments["optimizer"] = tf.nest.map_structure(lambda each: _clone_optimizer(each, graph), model.optimizer)
    for kind in ("metrics", "weighted_metrics"):
        arguments[kind] = tf.nest.map_structure(lambda metric: _clone_metric(metric, model), arguments[kind])
    clone.compile(**arguments)


def _update_without_xla(model):
    """XLA, with which Keras' optimizers compile their updates for GPUs, does not take variables of several devices."""
    for optimizer in tf.nest.flatten(model.optimizer):
        getattr(optimizer, "inner_optimizer", optimizer).jit_compile = False


def _clone_metric(metric, model):
    if not isinstance(metric, keras.metrics.Metric):
        return metric
    config = metric.get_config()
    named = graph_mode.graph_of(model) is not None or model.compiled_metrics.built
    if named and len(model.output_names) > 1:  # Keras has put the output's name before it
        prefixes = [f"{output}_" for output in model.output_names if metric.name.startswith(f"{output}_")]
        config["name"] = metric.name.removeprefix(max(prefixes, key=len, default=""))
    return type(metric).from_config(config)


def _clone_optimizer(optimizer, graph):
    """`graph`: the v1 graph that the optimizer's settings may be variables of, or None."""
    wrapped = getattr(optimizer, "optimizer", None)
    if isinstance(wrapped, tf.compat.v1.train.Optimizer):  # in Keras' wrapper
        return graph_mode.without_graph(private_names.copy_v1_optimizer(wrapped))
    with contextlib.nullcontext() if graph is None else graph.as_default():
        config = optimizer.get_config()
    clone = type(optimizer).from_config(config)
    variables, names = private_names.weight_decay_exclusions(optimizer)
    if variables:
        raise ValueError("The optimizer excludes variables from weight decay; exclude them by their names instead.")
    if names:
        clone.exclude_from_weight_decay(var_names=names)
    return clone
