"""Keras models made where eager execution is off; tests/test_behaviour.py has the numbers of TensorFlow 2.15."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.slow
def test_the_given_model_keeps_its_weights_and_can_be_fitted(classifier, data, batches, tmp_path):
    model = classifier(v1.train.AdamOptimizer(0.1))
    model.fit(*data, verbose=0)
    given = model.get_weights()
    estimator = et.model_to_estimator(model, model_dir=tmp_path).train(batches(data, 32))
    np.testing.assert_array_equal(model.get_weights()[0], given[0])
    assert not np.array_equal(
        estimator.get_variable_value("layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE"), given[0]
    )
    assert model.fit(*data, verbose=0).epoch == [0]
    assert estimator.train(batches(data, 32)).evaluate(batches(data, 32))["global_step"] == 6


@pytest.mark.slow
def test_weights_that_were_never_set_are_drawn_by_the_seed_of_the_config(data, batches, tmp_path):
    def draw(shape, dtype=None):
        return tf.random.normal(shape)  # Keras' own initializers have another seed

    def loss(folder, seed):
        model = keras.Sequential([keras.layers.Dense(3, kernel_initializer=draw, input_shape=(4,))])
        model.compile("sgd", "mse")
        config = et.RunConfig(tmp_path / folder, tf_random_seed=seed)
        estimator = et.model_to_estimator(model, custom_objects={"draw": draw}, config=config)
        return estimator.evaluate(batches(data, 32))["loss"]

    assert loss("a", 3) == loss("b", 3) != loss("c", 4)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)


@pytest.mark.parametrize(
    "make", [Subclassed, pytest.param(lambda: keras.Sequential([keras.layers.Dense(1)]), marks=pytest.mark.slow)]
)
def test_a_model_without_an_input_shape_gets_its_weights_from_the_data(make, batches, tmp_path):
    """The optimizer's steps are a variable of the graph, in which the model has none."""
    model = make()
    model.compile(v1.train.GradientDescentOptimizer(0.1), "mse")
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    x = np.ones([4, 2], "float32")
    assert estimator.train(batches((x, x[:, :1]), 2)).evaluate(batches((x, x[:, :1]), 2))["global_step"] == 2


@pytest.mark.slow
def test_several_outputs_keep_the_names_of_their_metrics(batches, tmp_path):
    x = np.ones([4, 2], "float32")
    inputs = keras.Input((2,))
    model = keras.Model(inputs, [keras.layers.Dense(1, name=name)(inputs) for name in ("a", "b")])
    model.compile("sgd", "mse", metrics={"a": "mae", "b": keras.metrics.MeanAbsoluteError(name="error")})
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    results = estimator.evaluate(batches((x, {"a": x[:, :1], "b": x[:, :1]}), 2))
    assert results.keys() == {"loss", "a_loss", "b_loss", "a_mae", "b_error", "global_step"}


def test_a_learning_rate_that_is_a_graph_tensor_is_reported(classifier):
    rate = v1.train.exponential_decay(0.1, v1.train.get_or_create_global_step(), 10, 0.9)
    with pytest.raises(ValueError, match=r"lr of the AdamOptimizer is .*ExponentialDecay.*; use a number"):
        et.model_to_estimator(classifier(v1.train.AdamOptimizer(rate)))


@pytest.mark.slow
def test_such_a_model_can_be_warm_started(classifier, data, batches, tmp_path):
    first = et.model_to_estimator(classifier("sgd"), model_dir=tmp_path / "first").train(batches(data, 32))
    second = et.model_to_estimator(classifier("sgd"), warm_start_from=tmp_path / "first")
    assert second.evaluate(batches(data, 32))["loss"] == first.evaluate(batches(data, 32))["loss"]
