"""The calls of a functional model, what they do in training besides their outputs, and models of a part of them."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras.tf_keras.layer_graph import (
    Segment,
    SubModel,
    calls_of,
    calls_within,
    is_functional,
    is_masked,
    needed_calls,
    outputs_of,
    side_effects,
)
from estimator_train._engine.remedies import UnsuitableError

layers = keras.layers
X = np.arange(8, dtype="float32").reshape(2, 4)


def names(calls):
    return [call.layer.name for call in calls]


def nested(**arguments):
    """A model with a model as a layer."""
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(3, name="first"), layers.Dropout(0.5, name="drop")])
    features = keras.Input((4,))
    return keras.Model(features, layers.Dense(2, name="last")(inner(features, **arguments)))


def test_layers_of_a_model_used_as_a_layer_are_called_on_the_outer_tensors():
    model = nested()
    assert len(calls_of(model)) == 2
    calls, outputs = calls_within(model, "recompute")
    assert names(calls) == ["first", "drop", "last"]
    again = keras.Model(model.inputs, outputs)
    np.testing.assert_array_equal(again(X), model(X))
    for training in (False, True):
        calls, _ = calls_within(nested(training=training), "recompute")
        assert [call.call_kwargs.get("training") for call in calls if call.layer.name == "drop"] == [training]


def test_models_that_cannot_be_taken_apart_are_refused():
    class Own(keras.Model):
        pass

    features = keras.Input((4,))
    assert is_functional(keras.Model(features, features)) and not is_functional(Own(features, features))
    with pytest.raises(UnsuitableError, match="is of the custom class Own.* train it without recompute"):
        calls_within(Own(features, features), "recompute")
    with pytest.raises(UnsuitableError, match="does not know its input yet"):
        calls_within(keras.Sequential([layers.Dense(1)]), "recompute")


class AddsLoss(layers.Layer):
    def call(self, inputs):
        self.add_loss(tf.reduce_mean(inputs))
        return inputs


class DrawsInFunction(layers.Layer):
    def call(self, inputs):
        @tf.function
        def draw(tensor):
            return tf.cond(tf.reduce_sum(tensor) > 0, lambda: tensor + tf.random.uniform([4]), lambda: tensor)

        return draw(inputs)


@pytest.mark.parametrize(
    ("layer", "effect"),
    [
        (lambda: layers.Dense(4, kernel_regularizer="l2"), None),
        (lambda: layers.Dropout(0.5), "gives different outputs each time or changes in training, by its operation"),
        (lambda: layers.BatchNormalization(), "by its operation Assign"),
        (lambda: AddsLoss(), "adds to the loss for its outputs"),
        (lambda: DrawsInFunction(), "by its operation RandomUniform"),
    ],
)
def test_side_effects_of_training_even_inside_of_functions_and_branches(layer, effect):
    features = keras.Input((4,))
    model = keras.Model(features, layers.Dense(1)(layer()(features)))
    calls = calls_of(model)
    effects = side_effects(model, calls, tf.distribute.get_strategy())
    if effect is None:
        assert effects == {}
    else:
        ((call, found),) = effects.items()
        assert call is calls[0] and effect in found


def test_only_the_calls_that_outputs_depend_on_are_needed():
    features = keras.Input((4,))
    used, unused = layers.Dense(3, name="used")(features), layers.Dense(3, name="unused")(features)
    model = keras.Model(features, [used, unused])
    calls = calls_of(model)
    assert set(names(calls)) == {"used", "unused"}
    assert names(needed_calls(calls, [id(model.outputs[0])])) == ["used"]
    assert outputs_of(calls).keys() == {id(output) for output in model.outputs}


@pytest.mark.parametrize("recompute", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_sub_model_computes_and_trains_as_the_whole(recompute):
    def trained(as_parts):
        keras.utils.set_random_seed(7)
        features = keras.Input((4,))
        model = keras.Model(features, layers.Dense(1)(layers.Dense(3, "tanh")(features)))
        model.compile(keras.optimizers.SGD(0.1), "mse")
        used = model
        if as_parts:
            first, second = calls_of(model)
            segments = [
                Segment([first], outputs_of([first]), recompute),
                Segment([second], outputs_of([second]), recompute),
            ]
            used = SubModel(model, segments, model.output)
            used.compile_as_whole()
        used.train_on_batch(X, np.ones([2, 1]))
        return used.predict_on_batch(X), model.get_weights()

    (ours, weights), (theirs, expected) = trained(True), trained(False)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    for one, other in zip(weights, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_fingerprint_depends_on_settings_and_weights_but_not_on_names():
    def fingerprint(name, activation="tanh", value=1.0):
        features = keras.Input((4,))
        model = keras.Model(features, layers.Dense(3, activation, name=name)(features))
        model.set_weights([np.full(weight.shape, value) for weight in model.get_weights()])
        calls = calls_of(model)
        return SubModel(model, [Segment(calls, outputs_of(calls))], [model.output]).fingerprint()

    assert fingerprint("one") == fingerprint("other")
    assert len({fingerprint("one"), fingerprint("one", "relu"), fingerprint("one", value=2.0)}) == 3


def test_masks_of_tensors():
    steps = keras.Input((3, 1))
    assert is_masked(layers.Masking()(steps)) and not is_masked(layers.Dense(1)(steps))
