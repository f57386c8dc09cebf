"""split_over: one model on several devices, where MirroredStrategy has the whole model on each."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras as keras

from estimator_train.keras import placement, tf_keras_adapter
from estimator_train.keras.cloning import ModelSource


def split_over(model: keras.Model, devices: Sequence[str] | Mapping[str, str]) -> keras.Model:
    """A copy of a compiled model whose layers, with their variables and gradients, are on the `devices`.

    It has all of the model's state, computes what the model computes, and its checkpoints are the model's: those of the
    one load into the other. One batch goes through all devices, so it trains without `train_distribute`.

    Args:
      model: a compiled functional or Sequential `tf_keras` model. A model that is one of its layers is not divided.
      devices: a list, such as ["GPU:0", "GPU:1"], over which the layers are shared out in the order of computation, by
        the size of weights and activations; or a dict of layer names, or patterns such as "decoder_*", to devices, in
        which the first that fits a layer counts.

    Raises:
      ValueError: a device is not there, a layer fits no pattern or a pattern no layer, there are fewer layers than
        devices, an input of the model has no fixed size, or the model is not compiled, or so with `jit_compile`.
    """
    if not isinstance(model, keras.Model) or not placement.is_graph(model):
        raise ValueError(f"{model!r} is no graph of layers; give a functional or a Sequential model of tf_keras")
    if model.jit_compile:
        raise ValueError(f"{model.name} is compiled with jit_compile=True, which is for one device; leave that out")
    _check_there(devices.values() if isinstance(devices, dict) else devices)
    places = _by_name(model, devices) if isinstance(devices, dict) else balance(model, devices)
    source = ModelSource(tf_keras_adapter, model, clone_layer=lambda layer: placement.placed(layer, places[layer.name]))
    return source.copy(tf.distribute.get_strategy())


def balance(model, devices):
    """A dict of layer names to `devices`, of which each gets about the same bytes in one stretch of the layers."""
    layers = _layers(model)
    if len(layers) < len(devices):
        raise ValueError(f"{model.name} has {len(layers)} layers, fewer than the {len(devices)} devices")
    sizes = [_bytes(layer) for layer in layers]
    places, before = {}, 0
    for layer, size in zip(layers, sizes, strict=True):
        middle = before + size / 2
        places[layer.name] = devices[int(middle / sum(sizes) * len(devices))]
        before += size
    return places


def _by_name(model, devices):
    places = {}
    for layer in _layers(model):
        pattern = next((pattern for pattern in devices if fnmatch.fnmatchcase(layer.name, pattern)), None)
        if pattern is None:
            raise ValueError(f'layer {layer.name} fits none of {", ".join(devices)}; add it, or "*" as the last')
        places[layer.name] = devices[pattern]
    unused = [pattern for pattern in devices if not fnmatch.filter(places, pattern)]
    if unused:
        raise ValueError(f"no layer is called {', '.join(unused)}; there are {', '.join(places)}")
    return places


def _check_there(devices):
    there = [f"{device.device_type}:{device.name.rsplit(':', 1)[1]}" for device in tf.config.list_logical_devices()]
    for device in devices:
        if placement.short(device) not in there:
            raise ValueError(f"there is no device {device}; there are {', '.join(there)}")


def _layers(model):
    """The layers that compute, in the order of their dependencies."""
    return [layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)]


def _bytes(layer):
    """Of what training with one example keeps of a layer: weights, their gradients and Adam's two slots, outputs."""
    kept_per_weight = 4
    weights = sum(math.prod(weight.shape) * weight.dtype.size for weight in placement.variables(layer))
    outputs = tf.nest.flatten([layer.get_output_at(index) for index in range(len(layer.inbound_nodes))])
    if not all(output.shape[1:].is_fully_defined() for output in outputs):
        raise ValueError(
            f"layer {layer.name} has outputs of no fixed size; give Input one, or name the layers' devices"
        )
    return kept_per_weight * weights + sum(math.prod(output.shape[1:]) * output.dtype.size for output in outputs)
