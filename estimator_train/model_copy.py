"""Copies of a compiled Keras model, each with its own variables, and none of the given model's state lost."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref

import tensorflow as tf
import tf_keras as keras
from tf_keras import layers

from estimator_train import checkpoints

_ADVICE = (
    "Pass a function without arguments that builds and compiles the model instead: "
    "model_to_estimator(keras_model=build_model)."
)


class ModelSource:
    """A compiled Keras model as it was when given: makes copies of it with the same weights.

    The given model is read once and never changed. Its state (weights, statistics, lookup tables, optimizer) is kept in
    a temporary folder as an object-based checkpoint.

    Raises:
      ValueError: the model is not compiled, or is no tf_keras model.
    """

    def __init__(self, model, custom_objects=None):
        """`model`: a compiled `tf_keras.Model`, or a function that returns one."""
        is_model = isinstance(model, keras.Model)
        given = model if is_model or not callable(model) or _is_keras_3(model) else model()
        _check_compiled(given)
        self._custom_objects = custom_objects or {}
        self._build = (lambda: _clone(given, self._custom_objects)) if is_model else model
        folder = tempfile.mkdtemp(prefix="estimator_train-")
        weakref.finalize(self, shutil.rmtree, folder)
        self._state = os.path.join(folder, "given")
        tf.train.Checkpoint(root=given).write(self._state)
        # The one state that an object-based checkpoint leaves out: the table of an adapted vocabulary is a constant.
        self._vocabularies = [layer.get_vocabulary(include_special_tokens=False) for layer in _lookups(given)]

    def copy(self, strategy):
        """A compiled copy with variables of its own, made in the scope of `strategy`."""
        with strategy.scope():
            model = self._build()
        checkpoints.restore(tf.train.Checkpoint(root=model), model, self._state)
        for layer, vocabulary in zip(_lookups(model), self._vocabularies, strict=True):
            if vocabulary and not layer.get_vocabulary(include_special_tokens=False):
                layer.set_vocabulary(vocabulary)
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


def _clone(model, custom_objects):
    """A compiled model of the same layers and settings, with other variables."""
    with keras.utils.custom_object_scope(custom_objects):
        try:
            clone = keras.models.clone_model(model)
            if type(clone) is not type(
                model
            ):  # Keras clones a functional model of a class of one's own without the class
                clone = type(model)(clone.input, clone.output, name=model.name)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise ValueError(f"Cannot copy the model {model.name}: {error} {_ADVICE}") from error
        if not model.trainable:  # the configuration carries this of layers, but not of the model
            clone.trainable = False
        _compile_like(clone, model)
    return clone


def _compile_like(clone, model):
    if type(model).compile is not keras.Model.compile:
        if type(model).compile_from_config is keras.Model.compile_from_config:
            raise ValueError(
                f"Cannot copy the model {model.name}: {type(model).__name__} overrides compile() but not "
                f"get_compile_config() and compile_from_config(). {_ADVICE}"
            )
        clone.compile_from_config(model.get_compile_config())
        return
    # Keras keeps compile()'s arguments here; get_compile_config() would give them serialised, which lambdas and
    # functions that are not registered do not survive.
    arguments = dict(model._compile_config.config)
    arguments["optimizer"] = tf.nest.map_structure(_clone_optimizer, model.optimizer)
    for kind in ("metrics", "weighted_metrics"):
        arguments[kind] = tf.nest.map_structure(lambda metric: _clone_metric(metric, model), arguments[kind])
    clone.compile(**arguments)


def _clone_metric(metric, model):
    if not isinstance(metric, keras.metrics.Metric):
        return metric
    config = metric.get_config()
    if model.compiled_metrics.built and len(model.output_names) > 1:  # Keras has put the output's name before it
        prefixes = [f"{output}_" for output in model.output_names if metric.name.startswith(f"{output}_")]
        config["name"] = metric.name.removeprefix(max(prefixes, key=len, default=""))
    return type(metric).from_config(config)


def _clone_optimizer(optimizer):
    wrapped = getattr(optimizer, "optimizer", None)
    if not isinstance(wrapped, tf.compat.v1.train.Optimizer):
        return type(optimizer).from_config(optimizer.get_config())
    # Keras' wrapper of a tf.compat.v1 optimizer, which has no configuration to copy by: its settings are its
    # attributes, less the checkpoint bookkeeping and the variables, which the copy makes anew.
    clone = object.__new__(type(wrapped))
    clone.__dict__.update({name: value for name, value in vars(wrapped).items() if not name.startswith("_self_")})
    clone._slots, clone._non_slot_dict, clone._deferred_slot_restorations = {}, {}, {}
    return clone
