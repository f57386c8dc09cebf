"""Grad-CAM finds what a classifier bases its decision on, in any kind of model."""

import numpy as np
import pytest
import tf_keras as keras

from estimator_train.app.report.grad_cam import grad_cam


def bright_corner(corners):
    """Black images of 16 x 16 pixels, each with one bright corner."""
    images = np.zeros((len(corners), 16, 16, 3), "float32")
    for image, (row, column) in zip(images, corners, strict=True):
        image[row * 12 : row * 12 + 4, column * 12 : column * 12 + 4] = 1
    return images


def base():
    """Feature maps of brightness and of darkness."""
    kernel = np.zeros((4, 4, 3, 2), "float32")
    kernel[..., 0], kernel[..., 1] = 1 / 48, -1 / 48
    inputs = keras.Input((16, 16, 3))
    layer = keras.layers.Conv2D(2, 4, strides=4, weights=[kernel, np.array([0, 1], "float32")])
    model = keras.Model(inputs, layer(inputs))
    model.trainable = False
    return model


def classifier(units):
    """Says "bright" for what is bright anywhere; its feature map is in a model inside, with frozen weights."""
    head = keras.layers.Dense(units, "softmax" if units == 2 else "sigmoid")
    inputs = keras.Input((16, 16, 3))
    model = keras.Model(inputs, head(keras.layers.GlobalAveragePooling2D()(base()(inputs))))
    head.set_weights([np.array([[-20, 20], [0, 0]])[:, -units:], np.zeros(units)])
    return model


@pytest.mark.parametrize("units", [1, 2])
def test_the_map_is_warm_where_the_class_is_seen(units):
    maps = grad_cam(classifier(units), bright_corner([(0, 1), (1, 0)]), np.array([1, 1]))
    assert maps.shape == (2, 4, 4)
    assert maps[0, 0, 3] == maps[1, 3, 0] == 1
    assert maps.sum() == pytest.approx(2)
    against = grad_cam(classifier(units), bright_corner([(0, 1)]), np.array([0]))
    assert against.max() == 0  # brightness only speaks against it


def test_models_without_a_feature_map_or_of_another_kind_are_refused():
    flat = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Flatten(), keras.layers.Dense(2, "softmax")])
    with pytest.raises(ValueError, match="has no feature map with a height and a width, or has several outputs"):
        grad_cam(flat, bright_corner([(0, 0)]), np.array([0]))

    class Own(keras.Model):
        pass

    with pytest.raises(ValueError, match="is not a functional or Sequential model of tf_keras"):
        grad_cam(Own(), bright_corner([(0, 0)]), np.array([0]))
