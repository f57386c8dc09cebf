"""Classifiers made of a backbone of `tf_keras.applications`, its preprocessing and a new head."""

import difflib
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.host.paths import StrPath
from estimator_train.app.models.backbones import CLASSES, default_freeze
from estimator_train.app.models.compilation import compile_with
from estimator_train.app.models.defaults import RATE_OF_BACKBONE, RATE_OF_HEAD
from estimator_train.app.models.head import Head
from estimator_train.app.models.weights import application


def build(
    name: str,
    image_size: tuple[int, int],
    head: Head,
    weights: StrPath | None = None,
    freeze: str | int | None = None,
    *,
    load_weights: bool = True,
) -> keras.Model:
    """Returns the compiled classifier on the backbone `name`; see `models.build_model` for the arguments."""
    weights = weights or "imagenet"
    build_base = getattr(keras.applications, CLASSES[name])
    base = application(build_base, image_size, weights if load_weights else "none")
    images = keras.Input((*image_size, 3))
    inputs = preprocessed(images, build_base)
    # As in Keras' guide to transfer learning, unfrozen BatchNormalization keeps its pretrained statistics, because
    # updating them from small batches would undo what the layers have learned.
    features = base(inputs) if weights == "none" else base(inputs, training=False)
    if name == "vgg16":
        outputs = head.outputs(keras.layers.Flatten()(features))  # as in the TensorFlow blog, see `default_freeze`
    else:
        outputs = head.outputs(keras.layers.GlobalAveragePooling2D()(features), dropout=0.2)
    model = keras.Model(images, outputs, name=f"{name}_classifier")
    head.compile(model, "adam")
    freeze_backbone(model, default_freeze(name, weights) if freeze is None else freeze)
    return model


def freeze_backbone(model: keras.Model, freeze: str | int) -> None:
    """Freezes the first layers of the backbone of a `model` from `build`, unfreezes the others, and recompiles it.

    `freeze` is "all", "none", the number of layers to freeze, or the name of the last one. Raises ValueError if the
    backbone has no such layer, or fewer layers.
    """
    (base,) = (layer for layer in model.layers if isinstance(layer, keras.Model))
    count = _number_frozen(base, str(freeze))
    base.trainable = True
    for layer in base.layers[:count]:
        layer.trainable = False
    rate = RATE_OF_BACKBONE if base.trainable_weights else RATE_OF_HEAD
    compile_with(model, keras.optimizers.Adam(rate))


def preprocessed(images: tf.Tensor, build_base: Callable[..., keras.Model]) -> tf.Tensor:
    """Applies the `preprocess_input` that belongs to `build_base` to `images` with pixels in [0, 1].

    It scales and shifts each channel and may reverse their order, all of which three test pixels reveal.

        preprocessed(keras.Input((224, 224, 3)), keras.applications.ResNet50)
    """
    module = getattr(keras.applications, build_base.__module__.rpartition(".")[2])
    pixels = np.array([[[0, 0, 0], [255, 255, 255], [255, 0, 0]]], np.float64)
    black, white, red = module.preprocess_input(pixels)[0]
    if red[0] != black[0]:
        return keras.layers.Rescaling((white - black).tolist(), black.tolist())(images)
    # Blue is first. Keras cannot serialize an Ellipsis.
    return keras.layers.Rescaling((white - black)[::-1].tolist(), black[::-1].tolist())(images)[:, :, :, ::-1]


def _number_frozen(base, freeze):
    names = [layer.name for layer in base.layers]
    if freeze in ("all", "none"):
        return len(names) if freeze == "all" else 0
    if freeze.isdecimal():
        if int(freeze) > len(names):
            raise ValueError(f"freeze={freeze}: {base.name} has {len(names)} layers")
        return int(freeze)
    if freeze not in names:
        similar = ", ".join(difflib.get_close_matches(freeze, names)) or f"{names[1]} to {names[-1]}"
        raise ValueError(f"freeze={freeze}: {base.name} has no such layer; pass all, none, a number, or {similar}")
    return names.index(freeze) + 1
