"""recompute: a model trains alike, and its backward pass runs most of the forward pass again."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train.keras.parts.layer_graph import LayerGraphError
from estimator_train.keras.parts.recomputation import recomputing

layers = keras.layers


@pytest.fixture
def model():
    inputs = keras.Input((8, 8, 1))
    first = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    second = layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(first))
    joined = layers.Conv2D(4, 3, activation="relu")(layers.Add()([first, second]))
    flat = layers.Dropout(0.0)(layers.Flatten()(layers.Conv2D(4, 3)(joined)))
    model = keras.Model(inputs, layers.Dense(2, "softmax", kernel_regularizer="l2")(flat))
    model.compile(keras.optimizers.SGD(0.1), "categorical_crossentropy", metrics=["accuracy"])
    return model


def test_training_on_replicas_gives_the_same(model, mirrored, batches, tmp_path):
    images = np.random.default_rng(3).normal(size=(32, 8, 8, 1)).astype("float32")
    data = images, np.eye(2, dtype="float32")[np.arange(32) % 2]
    results = []
    for recompute in (False, True):
        both = {"train_distribute": mirrored(2), "accumulate_steps": 2}
        config = et.RunConfig(tmp_path / str(recompute), recompute=recompute, **both)
        estimator = et.model_to_estimator(model, config=config)
        estimator.train(batches(data, 8, epochs=2))
        results.append((estimator.get_variable_names(), estimator.evaluate(batches(data, 8))))
    assert results[1][0] == results[0][0]
    assert results[1][1] == pytest.approx(results[0][1], abs=1e-5)


def test_the_backward_pass_runs_the_layers_again_but_for_those_that_change(model):
    graphs = []
    for each in (model, recomputing(model, tf.distribute.get_strategy())):
        function = tf.function(each.train_step).get_concrete_function((tf.zeros((2, 8, 8, 1)), tf.zeros((2, 2))))
        graphs.append([operation.type for operation in function.graph.get_operations()])
    assert [graph.count("Conv2D") for graph in graphs] == [4, 8]
    assert [graph.count("FusedBatchNormV3") for graph in graphs] == [1, 1]


def test_models_that_cannot_be_taken_apart_are_refused():
    class Own(keras.Sequential):
        pass

    with pytest.raises(LayerGraphError, match="is of the class Own, .*; train it without recompute"):
        recomputing(Own([layers.Dense(1, input_shape=(2,))]), tf.distribute.get_strategy())
    masked = keras.Sequential([layers.Embedding(9, 2, mask_zero=True, input_shape=(3,)), layers.LSTM(2)])
    with pytest.raises(LayerGraphError, match="Layer embedding.* gives a mask, which would be lost"):
        recomputing(masked, tf.distribute.get_strategy())
