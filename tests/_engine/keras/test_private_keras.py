"""Each private name of Keras, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras import private_keras
from estimator_train._engine.libraries import MissingNameError
from estimator_train._engine.session import private_tensorflow


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def keras3():
    return pytest.importorskip("keras")


def test_the_arguments_of_compile_as_they_were_given():
    """A model compiled with a lambda, or with a function of the user's, could not be copied."""
    loss = lambda labels, predictions: tf.reduce_mean(predictions)  # noqa: E731, as users have it
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", loss, metrics=["mae"])
    arguments = private_keras.compile_arguments(model)
    assert arguments["loss"] is loss
    assert arguments["metrics"] == ["mae"]
    keras.Sequential([keras.layers.Dense(1)]).compile(**arguments)


def test_the_arguments_of_compile_of_a_model_made_in_a_graph(graph):
    """A model of a program of TensorFlow 1 could not be copied."""
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse", metrics=["mae"], loss_weights=[2.0])
    arguments = private_keras.compile_arguments(model)
    assert (arguments["loss"], arguments["metrics"], arguments["loss_weights"]) == ("mse", ["mae"], [2.0])
    assert "weighted_metrics" in arguments
    with private_tensorflow.eager_mode(), pytest.raises(MissingNameError):
        private_keras.compile_arguments(keras.Sequential())


def test_the_losses_that_a_keras_3_model_computes(keras3):
    """A loss that returns a scalar would count once for each replica."""
    model = keras3.Sequential([keras3.layers.Dense(1)])
    model.compile("sgd", metrics=["mae"])
    assert private_keras.compiled_loss(model) is None
    model.compile("sgd", loss := keras3.losses.MeanSquaredError())
    compiled = private_keras.compiled_loss(model)
    assert not compiled.built
    compiled.build(tf.zeros([1, 1]), tf.zeros([1, 1]))
    assert private_keras.losses_in(compiled) == [loss]
    loss.call = lambda labels, predictions: tf.constant([3.0])
    assert float(model.compute_loss(None, tf.zeros([1, 1]), tf.zeros([1, 1]))) == 3.0


@pytest.mark.parametrize("generation", ["tf_keras", "keras"])
def test_the_mask_of_a_prediction_that_metrics_read(generation):
    """Metrics would count the padding of sequences if XLA compiles the model."""
    keras = pytest.importorskip(generation)
    masked = keras.layers.Embedding(3, 2, mask_zero=True)(tf.constant([[1, 0]]))
    np.testing.assert_array_equal(private_keras.mask_of(masked), [[True, False]])
    assert private_keras.mask_of(tf.zeros([1])) is None
    predictions = tf.constant([[[1.0], [5.0]]])
    private_keras.attach_mask(predictions, None)
    private_keras.attach_mask(predictions, private_keras.mask_of(masked))
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(metrics=["mae"])
    logs = model.compute_metrics(None, tf.zeros([1, 2, 1]), predictions, None)
    assert float(logs["mae"]) == 1


def test_the_arguments_of_a_keras_3_compile_as_they_were_given(keras3):
    """A loss that is a lambda would be lost in a copy."""
    model = keras3.Sequential([keras3.layers.Dense(1)])
    loss = lambda y, p: y - p  # noqa: E731
    model.compile("sgd", loss)
    assert private_keras.compile_arguments(model)["loss"] is loss
