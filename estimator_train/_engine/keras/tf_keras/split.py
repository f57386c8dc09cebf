"""split_over: places one model on several devices, unlike MirroredStrategy, which copies the whole model to each."""

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras.source import ModelSource
from estimator_train._engine.keras.tf_keras import placement
from estimator_train._engine.keras.tf_keras.adapter import TfKerasAdapter


def split_over(model: keras.Model, devices: Sequence[str] | Mapping[str, str]) -> keras.Model:
    """Returns a copy of a compiled model with its layers, their variables and gradients placed on `devices`.

        >>> keras = tf.keras
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> copy = et.split_over(model, ["CPU:0"])  # for example ["GPU:0", "GPU:1"]
        >>> estimator = et.model_to_estimator(copy, model_dir="runs/split")

    The copy has all of the model's state and computes the same. Checkpoints of the model and of the copy load into each
    other. One batch goes through all devices, so train it without `train_distribute`.

    Args:
      model: a compiled functional or Sequential `tf_keras` model. A model used as a layer is not divided.
      devices: a list, such as ["GPU:0", "GPU:1"], which divides the layers, in the order of computation, by the size of
        their weights and activations; or a dict from layer names, or patterns such as "decoder_*", to devices, in which
        the first match counts.

    Raises:
      ValueError: If a device does not exist, a layer matches no pattern or a pattern no layer, there are fewer layers
        than devices, an input of the model has no fixed size, or the model is not compiled or uses `jit_compile`.
    """
    if isinstance(devices, Mapping):
        _check_there(devices.values())
        places = _by_name(model, devices)
    else:
        _check_there(devices)
        places = balance(model, devices)
    if model.jit_compile:
        raise ValueError(f"{model.name} is compiled with jit_compile=True, which supports one device; remove it")
    source = ModelSource(TfKerasAdapter(), model, clone_layer=lambda layer: placement.placed(layer, places[layer.name]))
    return source.copy(tf.distribute.get_strategy())


def balance(model: keras.Model, devices: Sequence[str]) -> dict[str, str]:
    """Returns a dict from layer names to `devices`; each gets consecutive layers of about the same size in bytes."""
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


def _by_name(model: keras.Model, devices: Mapping[str, str]) -> dict[str, str]:
    places = {}
    for layer in _layers(model):
        pattern = next((pattern for pattern in devices if fnmatch.fnmatchcase(layer.name, pattern)), None)
        if pattern is None:
            raise ValueError(f'layer {layer.name} matches none of {", ".join(devices)}; add it, or "*" as the last')
        places[layer.name] = devices[pattern]
    unused = [pattern for pattern in devices if not fnmatch.filter(places, pattern)]
    if unused:
        raise ValueError(f"no layer matches {', '.join(unused)}; there are {', '.join(places)}")
    return places


def _check_there(devices: Iterable[str]) -> None:
    there = [f"{device.device_type}:{device.name.rsplit(':', 1)[1]}" for device in tf.config.list_logical_devices()]
    for device in devices:
        if placement.short(device) not in there:
            raise ValueError(f"there is no device {device}; TensorFlow sees {', '.join(there)}")


def _layers(model: keras.Model) -> list[keras.layers.Layer]:
    if not isinstance(model, keras.Model) or not placement.is_graph(model):
        raise ValueError(f"{model!r} is not a graph of layers; pass a functional or Sequential model of tf_keras")
    return [layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)]


def _bytes(layer: keras.layers.Layer) -> int:
    """Returns the bytes of a layer in training with one example: weights, their gradients, Adam's slots and outputs."""
    kept_per_weight = 4
    weights = sum(math.prod(weight.shape) * weight.dtype.size for weight in placement.variables(layer))
    outputs = tf.nest.flatten([layer.get_output_at(index) for index in range(len(layer.inbound_nodes))])
    if not all(output.shape[1:].is_fully_defined() for output in outputs):
        raise ValueError(
            f"layer {layer.name} has outputs without a fixed size; give Input one, or name the layers' devices"
        )
    return kept_per_weight * weights + sum(math.prod(output.shape[1:]) * output.dtype.size for output in outputs)
