"""Estimates the device memory that training a Keras model needs, without running it."""

import collections
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras.tf_keras import placement, split
from estimator_train._engine.types import Nest

# Operations whose outputs share their inputs' memory.
_ALIASES = ("Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient")

# Steps took up to 1.33 times the estimate, which leaves out the kernels' scratch memory; see docs/unet3d.md. On a GPU
# limited to 1.4 times the estimate, the three models that were tried trained; see docs/gpu.md.
HEADROOM = 1.4


class Memory(NamedTuple):
    """Estimated memory on one device, in bytes."""

    weights: int
    optimizer: int
    activations: int  # peak of the activations, gradients and batch that are alive at the same time

    @property
    def total(self) -> int:
        return sum(self)


def estimate(model: keras.Model, batch_size: int, device_count: int = 1) -> list[Memory]:
    """Returns a list with the `Memory` on each device of training `model`, split by `split.split_over`.

    The training step is traced, not run: only the weights are allocated, in host memory, and the devices need not
    exist. The estimate assumes that operations run one after the other and need no memory besides their inputs and
    outputs; the kernels' scratch memory, the losses and the optimizer's update come on top.

    The model is a compiled functional or Sequential one of `tf_keras`, whose inputs have fixed sizes; raises ValueError
    for another.
    """
    devices = [f"GPU:{index}" for index in range(device_count)]
    places = split.balance(model, devices)
    if model.optimizer is None:
        raise ValueError(f"the model {model.name} has not been compiled; its optimizer needs memory, too")
    with tf.variable_creator_scope(_on_host):
        there = keras.models.clone_model(model, clone_function=lambda each: placement.placed(each, places[each.name]))
    activations = _most_alive(_trace(there, batch_size), devices)
    weights = dict.fromkeys(devices, 0)
    trained = dict.fromkeys(devices, 0)
    for layer in model.layers:
        device = places.get(layer.name, devices[0])
        weights[device] += _bytes(placement.variables(layer))
        trained[device] += _bytes(layer.trainable_weights)
    slots = _slots(model.optimizer)
    return [Memory(weights[device], slots * trained[device], activations[device]) for device in devices]


def fits(estimates: Iterable[Memory], device_bytes: float) -> bool:
    """Returns whether all estimates, times `HEADROOM`, fit into `device_bytes`."""
    return all(HEADROOM * device.total <= device_bytes for device in estimates)


def _on_host(create: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
    with tf.device("CPU:0"):
        return create(**kwargs)


def _trace(model: keras.Model, batch_size: int) -> tf.Graph:
    """Returns the graph of the forward and backward passes."""

    @tf.function
    def step(inputs: Nest) -> Nest:
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
        return tape.gradient(outputs, model.trainable_variables)

    specs = tf.nest.map_structure(lambda each: tf.TensorSpec([batch_size, *each.shape[1:]], each.dtype), model.input)
    return step.get_concrete_function(specs).graph


def _most_alive(graph: tf.Graph, devices: list[str]) -> dict[str, int]:
    """Returns a dict from `devices` to the peak size in bytes of the tensors that are alive there.

    A tensor is alive from the operation that produces it to the last one that reads it, on the device of each reader.
    """
    operations = graph.get_operations()
    origins, made, read = {}, {}, {}  # by id of the tensor; `made` and `read`, by device too, are operation indices
    for index, operation in enumerate(operations):
        device = placement.short(operation.device) if operation.device else devices[0]
        for tensor in operation.inputs:
            read[id(origins[id(tensor)]), device] = index
        for position, tensor in enumerate(operation.outputs):
            if operation.type in _ALIASES:
                origins[id(tensor)] = origins[id(operation.inputs[position])]
            else:
                origins[id(tensor)] = tensor
                made[id(tensor)] = index
                read[id(tensor), device] = index
    tensors = {id(tensor): tensor for tensor in origins.values()}
    changes = collections.defaultdict(lambda: [0] * (len(operations) + 1))
    for (key, device), index in read.items():
        if tensors[key].op.type == "ReadVariableOp":
            continue
        size = _size(tensors[key])
        changes[device][made[key]] += size
        changes[device][index + 1] -= size
    return {device: max(itertools.accumulate(changes[device])) for device in devices}


def _bytes(variables: Iterable[tf.Variable]) -> int:
    return sum(_size(variable) for variable in variables)


def _size(tensor: tf.Tensor | tf.Variable) -> int:
    return math.prod(tensor.shape) * tensor.dtype.size if tensor.shape.is_fully_defined() else 0


def _slots(optimizer: keras.optimizers.Optimizer) -> int:
    """Returns how many values an optimizer keeps for each trained value; Adam keeps 2."""
    optimizer = type(optimizer).from_config(optimizer.get_config())
    optimizer.build([tf.Variable([0.0, 0.0])])
    return sum(variable.shape == [2] for variable in optimizer.variables)
