"""MobileNetV2 as a fixed feature extractor under a new softmax: fine on little data and quick on a CPU."""

from __future__ import annotations

import os

import tf_keras as keras

from estimator_train.models.head import Head
from estimator_train.models.weights import application

DEFAULT_WEIGHTS = "imagenet"


def build(image_size: tuple[int, int], head: Head, weights: str | os.PathLike[str] = DEFAULT_WEIGHTS) -> keras.Model:
    """Returns the compiled model; `weights` are those of the base. See `models.build_model`."""
    base = application(keras.applications.MobileNetV2, image_size, weights)
    base.trainable = False
    images = keras.Input((*image_size, 3))
    scaled = keras.layers.Rescaling(2.0, offset=-1.0)(images)
    features = keras.layers.GlobalAveragePooling2D()(base(scaled, training=False))
    features = keras.layers.Dropout(0.2)(features)
    model = keras.Model(images, head.outputs(features), name="mobilenet_v2_classifier")
    head.compile(model, keras.optimizers.Adam(3e-3))
    return model
