"""Models by name for several labels and for numbers, and with dropout."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train.app import models

NAMES = ("small_cnn", "fashion_mnist_cnn", "vgg16")  # the other classifiers are built as the last one is
SIZE = (32, 48)
IMAGES = np.random.default_rng(3).random((4, *SIZE, 3), np.float32)


def fit_once(model, labels):
    """Returns the metrics of one batch in eager mode, because tracing a backbone takes ten times as long."""
    model.run_eagerly = True
    return model.fit(IMAGES, np.float32(labels), verbose=0).history.keys()


@pytest.mark.parametrize("name", [*NAMES[:2], pytest.param(NAMES[2], marks=pytest.mark.slow)])
def test_every_model_has_a_sigmoid_for_each_label(name):
    model = models.build_model(name, image_size=SIZE, num_classes=3, weights="none", task="multilabel")
    assert model.layers[-1].activation is keras.activations.sigmoid
    metrics = fit_once(model, [[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
    assert metrics == {"loss", "binary_accuracy"} and model.loss == "binary_crossentropy"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_model_predicts_a_number(name):
    model = models.build_model(name, image_size=SIZE, num_classes=1, weights="none", task="regression")
    assert model.output_shape == (None, 1) and model.layers[-1].activation is keras.activations.linear
    metrics = fit_once(model, [[1], [2], [3], [4]])
    assert metrics == {"loss", "mean_absolute_error"} and model.loss == "mean_squared_error"


@pytest.mark.slow
def test_a_regression_learns_labels_of_any_scale_equally_fast():
    images = np.float32([0.1, 0.4, 0.7, 1.0])[:, None, None, None] * np.ones((1, 16, 16, 3), np.float32)
    errors = []
    for mean, deviation in [(0, 1), (70_000, 2_500)]:
        keras.utils.set_random_seed(1)
        labels = mean + deviation * np.float32([[-1.3], [-0.4], [0.4], [1.3]])
        model = models.build_model(
            "small_cnn", image_size=(16, 16), num_classes=1, task="regression", label_moments=(mean, deviation)
        )
        model.run_eagerly = True
        model.fit(images, labels, epochs=20, verbose=0)
        errors.append(np.abs(model(images) - labels).max() / deviation)
    assert errors[1] == pytest.approx(errors[0], abs=0.02) and errors[0] < 0.9  # 1.3 or more before


def test_another_task_is_refused():
    with pytest.raises(ValueError, match="there is no task 'ranking'; pass one of classification, multilabel, regress"):
        models.build_model("small_cnn", image_size=SIZE, num_classes=2, task="ranking")


@pytest.mark.slow
def test_dropout_drops_in_training_alone():
    plain, dropping = (
        models.build_model("small_cnn", image_size=SIZE, num_classes=2, dropout=dropout) for dropout in (None, 0.4)
    )
    dropping.set_weights(plain.get_weights())
    np.testing.assert_array_equal(dropping(IMAGES), plain(IMAGES))
    assert (dropping(IMAGES, training=True) != plain(IMAGES)).numpy().any()
    of_dropping, of_plain = (
        model.evaluate(IMAGES, tf.one_hot([0, 1, 1, 0], 2), verbose=0) for model in (dropping, plain)
    )
    assert of_dropping == of_plain


@pytest.mark.slow
def test_a_dropout_that_the_model_has_gets_the_rate():
    layers = models.build_model("mobilenet_v2", image_size=SIZE, num_classes=2, weights="none", dropout=0.4).layers
    assert [layer.rate for layer in layers if isinstance(layer, keras.layers.Dropout)] == [0.4]
