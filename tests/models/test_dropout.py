"""Dropout before the last layer of a classifier."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

from estimator_train import models

IMAGES = np.random.default_rng(1).random((2, 32, 32, 3), np.float32)


def build(name, **arguments):
    keras.utils.set_random_seed(1)
    return models.build_model(name, image_size=(32, 32), num_classes=2, weights="none", **arguments)


def test_it_drops_in_training_alone():
    plain, dropping = build("small_cnn"), build("small_cnn", dropout=0.4)
    assert isinstance(dropping.layers[-2], keras.layers.Dropout) and dropping.layers[-2].rate == 0.4
    np.testing.assert_array_equal(dropping(IMAGES), plain(IMAGES))
    assert (dropping(IMAGES, training=True) != plain(IMAGES)).numpy().any()
    of_dropping, of_plain = (model.evaluate(IMAGES, tf.eye(2), verbose=0) for model in (dropping, plain))
    assert of_dropping == of_plain


def test_a_dropout_that_is_there_gets_the_rate():
    layers = build("mobilenet_v2", dropout=0.4).layers
    assert [layer.rate for layer in layers if isinstance(layer, keras.layers.Dropout)] == [0.4]
