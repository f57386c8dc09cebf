"""Keeps layers on a device: their variables, their operations and the gradients of these."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras import private_tensorflow
from estimator_train._engine.keras.protocols import CloneLayer
from estimator_train._engine.types import Nest


def placed(layer: keras.layers.Layer, device: str) -> keras.layers.Layer:
    """Returns a copy of `layer` on `device`, whose class also keeps Keras' copies there, and saves as the original."""
    layer_class: Any = getattr(type(layer), "unplaced", type(layer))
    return _class_on(layer_class, short(device)).from_config(layer.get_config())


def kept(model: keras.Model) -> CloneLayer | None:
    """Returns a clone function that keeps layers on the devices of their variables, or None if all share one."""
    if not is_graph(model):
        return None
    places = {}
    for layer in model.layers:
        # TensorFlow keeps some variables that are not floating-point on the CPU.
        # A variable in a v1 graph may have no device yet.
        devices = {variable.device for variable in variables(layer) if variable.dtype.is_floating} - {""}
        found = {short(device) for device in devices}
        if len(found) == 1:
            places[layer.name] = found.pop()
    if len(set(places.values())) < 2:  # a model built on the CPU, for example, may be trained on a GPU
        return None

    def clone(layer: keras.layers.Layer) -> keras.layers.Layer:
        if layer.name in places:
            return placed(layer, places[layer.name])
        return type(layer).from_config(layer.get_config())

    return clone


def is_graph(model: keras.Model) -> bool:
    """Returns whether `model` is a graph of layers: functional, or Sequential with a known input."""
    return bool(model.layers) and all(layer.inbound_nodes for layer in model.layers)


def variables(layer: keras.layers.Layer) -> list[tf.Variable]:
    """Returns the variables of a layer: its weights without the vocabularies that Keras lists among them."""
    return [weight for weight in layer.weights if isinstance(weight, tf.Variable)]


def short(device: str) -> str:
    """Normalizes the spelling of a device: /job:localhost/replica:0/task:0/device:GPU:1 becomes GPU:1."""
    if not device.startswith("/"):
        device = f"/device:{device}"
    spec = tf.DeviceSpec.from_string(device)
    return f"{spec.device_type}:{spec.device_index}"


@functools.cache
def _class_on(layer_class: Any, device: str) -> Any:
    class Placed(layer_class):
        unplaced = layer_class

        @classmethod
        def from_config(cls, config: dict[str, object]) -> keras.layers.Layer:
            with tf.device(device):
                return super().from_config(config)

        def __call__(self, *args: Nest, **kwargs: Nest) -> Nest:
            replicas = tf.distribute.get_strategy().num_replicas_in_sync
            if replicas > 1:
                raise RuntimeError(
                    f"Layer {self.name} is placed on {device}, but a strategy of {replicas} replicas has the whole "
                    "model on each device; leave out the strategy, or the placement of layers."
                )
            with tf.device(device):
                return super().__call__(*args, **kwargs)

        def call(self, *args: Nest, **kwargs: Nest) -> Nest:
            own_call = private_tensorflow.with_autograph(layer_class.call)
            return _differentiate_on(device, functools.partial(own_call, self), args, kwargs)

        call = private_tensorflow.as_wrapper(call, layer_class.call)  # lets Keras find `training`, `mask` and so on

    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(Placed, name, getattr(layer_class, name))
    return Placed


def _differentiate_on(device: str, function: Callable, args: tuple, kwargs: dict[str, Nest]) -> Nest:
    """Calls `function` with gradients on `device`; by default they are on the first one, with a copy of activations."""
    inputs = tf.nest.flatten((args, kwargs), expand_composites=True)
    # A tensor that a layer takes twice, as in self-attention, has one gradient.
    differentiable = {id(each): each for each in inputs if tf.is_tensor(each) and each.dtype.is_floating}

    @tf.custom_gradient
    def run(*tensors: tf.Tensor) -> tuple[Nest, Callable]:
        own = dict(zip(differentiable, tensors, strict=True))
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(tensors)
            own_inputs = [own.get(id(each), each) for each in inputs]
            own_args, own_kwargs = tf.nest.pack_sequence_as((args, kwargs), own_inputs, expand_composites=True)
            outputs = function(*own_args, **own_kwargs)

        def gradients(*upstream: tf.Tensor, variables: Sequence[tf.Variable] = ()) -> Nest:
            with tf.device(device):
                to_tensors, to_variables = tape.gradient(
                    tf.nest.flatten(outputs), (list(tensors), list(variables)), output_gradients=list(upstream)
                )
            if not variables:
                return to_tensors
            return to_tensors, to_variables

        return outputs, gradients

    return run(*differentiable.values())
