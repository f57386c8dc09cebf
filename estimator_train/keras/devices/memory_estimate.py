"""Estimates the device memory that training a Keras model needs, without running it."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras

# Operations whose outputs are their inputs' memory.
from estimator_train.keras import placement
from estimator_train.keras.devices import split

# Operations whose outputs are their inputs' memory.
_ALIASES = ("Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient")

# Chosen: large steps took 1.2 times the estimate without what kernels work in, see docs/unet3d.md.
HEADROOM = 1.4


class Memory(NamedTuple):
    """Bytes on one device."""

    weights: int
    optimizer: int
    activations: int  # the most that are alive at once of them, the gradients and the batch

    @property
    def total(self) -> int:
        return sum(self)


def estimate(model: keras.Model, batch_size: int, device_count: int = 1) -> list[Memory]:
    """A list of `Memory`, one a device, of training `model` split over so many devices: see `split.split_over`.

    The training step is traced, not run: nothing is allocated but the weights, in the memory of the host, and the
    devices need not be there. Operations are taken to run one after the other, in no more memory than their inputs and
    outputs have; what kernels work in, the losses and the optimizer's update come on top.

    Args:
      model: a compiled functional or Sequential `tf_keras` model whose inputs have fixed sizes.
      batch_size: examples a step.
      device_count: of the devices.
    """
    devices = [f"GPU:{index}" for index in range(device_count)]
    places = split.balance(model, devices)
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


def fits(estimates: Iterable[Memory], device_bytes: int) -> bool:
    """Whether every device of the estimates has the memory, with `HEADROOM`."""
    return all(HEADROOM * device.total <= device_bytes for device in estimates)


def _on_host(create, **kwargs):
    with tf.device("CPU:0"):
        return create(**kwargs)


def _trace(model, batch_size):
    """The graph of the forward and the backward pass."""

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
        return tape.gradient(outputs, model.trainable_variables)

    specs = tf.nest.map_structure(lambda each: tf.TensorSpec([batch_size, *each.shape[1:]], each.dtype), model.input)
    return step.get_concrete_function(specs).graph


def _most_alive(graph, devices):
    """A dict of `devices` to the most bytes of tensors that are alive there at once.

    A tensor is alive from its operation to the last that reads it, on the device of each that does.
    """
    operations = graph.get_operations()
    origins, made, read = {}, {}, {}  # tensors by id; the last two are indices of operations, `read` by device, too
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
        size = 0 if tensors[key].op.type == "ReadVariableOp" else _size(tensors[key])
        changes[device][made[key]] += size
        changes[device][index + 1] -= size
    return {device: _most(changes[device]) for device in devices}


def _most(changes):
    most = now = 0
    for change in changes:
        now += change
        most = max(most, now)
    return most


def _bytes(variables):
    return sum(_size(variable) for variable in variables)


def _size(tensor):
    return math.prod(tensor.shape) * tensor.dtype.size if tensor.shape.is_fully_defined() else 0


def _slots(optimizer):
    """How many values an optimizer keeps for each that it trains: Adam 2."""
    optimizer = type(optimizer).from_config(optimizer.get_config())
    optimizer.build([tf.Variable([0.0, 0.0])])
    return sum(variable.shape == [2] for variable in optimizer.variables)
