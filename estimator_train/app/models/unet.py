"""The body of a U-Net in two or three dimensions, whose padded convolutions keep the size of the input."""

from __future__ import annotations

import functools

import tensorflow as tf
import tf_keras as keras

_LAYERS = {
    2: (keras.layers.Conv2D, keras.layers.MaxPooling2D, keras.layers.Conv2DTranspose),
    3: (keras.layers.Conv3D, keras.layers.MaxPooling3D, keras.layers.Conv3DTranspose),
}


def unet_features(inputs: tf.Tensor, filters: int, poolings: int) -> tf.Tensor:
    """Returns features of the size of `inputs`, for the layer that predicts masks.

        >>> unet_features(keras.Input((16, 16, 3)), filters=2, poolings=2).shape.as_list()
        [None, 16, 16, 2]

    Args:
      inputs: tensor of shape (batch, height, width, channels) or (batch, depth, height, width, channels), whose sides
        are multiples of 2**poolings.
      filters: filters in the first convolution; they double with every pooling.
      poolings: number of poolings, and of upsamplings.
    """
    convolution, pooling, upsampling = _LAYERS[len(inputs.shape) - 2]
    convolutions = functools.partial(_convolutions, convolution)
    features, skips = inputs, []
    for level in range(poolings):
        features = convolutions(features, filters * 2**level, f"encoder_{level}")
        skips.append(features)
        features = pooling(name=f"encoder_{level}_pooling")(features)
    features = convolutions(features, filters * 2**poolings, "bottom")
    for level in reversed(range(poolings)):
        name = f"decoder_{level}"
        features = upsampling(filters * 2**level, 2, strides=2, name=f"{name}_upsampling")(features)
        features = keras.layers.Concatenate(name=f"{name}_skip")([skips[level], features])
        features = convolutions(features, filters * 2**level, name)
    return features


def _convolutions(convolution, features, filters, name):
    for index in range(2):
        features = convolution(filters, 3, padding="same", use_bias=False, name=f"{name}_conv_{index}")(features)
        features = keras.layers.BatchNormalization(momentum=0.9, name=f"{name}_norm_{index}")(features)
        features = keras.layers.ReLU(name=f"{name}_relu_{index}")(features)
    return features
