"""VGG16 whose last convolutional block is fine-tuned.

Source: Kashif Rasul, "Multi-GPU training with Estimators, tf.keras and tf.data" (TensorFlow blog).
"""

from __future__ import annotations

import os

import tf_keras as keras

from estimator_train.models.head import Head
from estimator_train.models.weights import application

DEFAULT_WEIGHTS = "imagenet"

_IMAGENET_MEAN = (123.68, 116.779, 103.939)  # red, green, blue, as in keras.applications.vgg16.preprocess_input


def build(image_size: tuple[int, int], head: Head, weights: str | os.PathLike[str] = DEFAULT_WEIGHTS) -> keras.Model:
    """Returns the compiled model; `weights` are those of the base. See `models.build_model`."""
    base = application(keras.applications.VGG16, image_size, weights)
    for layer in base.layers[:-4]:
        layer.trainable = False
    images = keras.Input((*image_size, 3))
    centred = keras.layers.Rescaling(255.0, offset=[-mean for mean in _IMAGENET_MEAN])(images)
    blue_first = centred[:, :, :, ::-1]  # an Ellipsis would not serialise
    features = keras.layers.Flatten()(base(blue_first))
    model = keras.Model(images, head.outputs(features), name="vgg16_classifier")
    head.compile(model, keras.optimizers.Adam(1e-4))
    return model
