"""Variables keep their slots when training continues with different frozen layers."""

import numpy as np
import pytest
import tf_keras as keras

import estimator_train as et


def build(weights=None, frozen=1, optimizer=None):
    """Builds a classifier with layers named by Keras, the first of them frozen."""
    layers = [keras.layers.Dense(3, activation="tanh") for _ in range(2)]
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3, activation="softmax")])
    for layer in layers[:frozen]:
        layer.trainable = False
    model.compile(optimizer or keras.optimizers.Adam(0.1), "categorical_crossentropy")
    if weights is not None:
        model.set_weights(weights)
    return model


def train(model, folder, data, batches, **config):
    config = et.RunConfig(folder, **config)
    return et.model_to_estimator(model, config=config).train(batches(data, 16), steps=2)


def fit(model, data):
    x, y = (part[:32] for part in data)
    model.run_eagerly = True
    model.fit(x, y, batch_size=16, shuffle=False, verbose=0)


def slots(model):
    """Returns the optimizer's variables by name, without the numbers in Keras' layer names."""
    of = {weight.name: index for index, weight in enumerate(model.weights)}
    named = {variable.name: variable for variable in model.optimizer.variables}
    split = {name: name.partition("/") for name in named}
    return {(slot, of[weight]): named[name] for name, (slot, _, weight) in split.items() if weight in of}


@pytest.mark.slow
def test_slots_follow_their_variables_and_new_ones_begin_at_zero(data, batches, tmp_path, log_lines):
    weights = build().get_weights()
    before = build(weights, 2, keras.optimizers.Adam(0.1))
    before.optimizer.build(before.trainable_variables)  # in fit, their names would contain the optimizer's name
    fit(before, data)
    train(build(weights, 2, keras.optimizers.Adam(0.1)), tmp_path, data, batches)
    # Unfreeze, freeze and unfreeze layers; each new model has different layer names.
    for frozen, begun_anew in ((1, 2), (2, 0), (0, 4)):
        expected = build(before.get_weights(), frozen, keras.optimizers.Adam(0.1))
        expected.optimizer.build(expected.trainable_variables)
        kept = slots(before)
        for key, variable in slots(expected).items():
            variable.assign(kept.get(key, 0 * variable))
        expected.optimizer.iterations.assign(before.optimizer.iterations)
        fit(expected, data)
        estimator = train(build(weights, frozen, keras.optimizers.Adam(0.1)), tmp_path, data, batches)
        loaded = build(frozen=frozen)
        loaded.load_weights(estimator.latest_checkpoint()).expect_partial()
        for ours, theirs in zip(loaded.get_weights(), expected.get_weights(), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
        said = [line for line in log_lines if line.startswith("The optimizer starts without state for")]
        assert said[-1].startswith(f"The optimizer starts without state for {begun_anew} variables that checkpoint ")
        before = expected
    assert estimator.evaluate(batches(data, 32))["global_step"] == 8


@pytest.mark.slow
def test_slots_of_the_same_variables_stay_where_they_are(data, batches, tmp_path, log_lines):
    weights = build().get_weights()
    expected = build(weights)
    for _ in range(2):
        fit(expected, data)
        estimator = train(build(weights), tmp_path, data, batches)
    loaded = build()
    loaded.load_weights(estimator.latest_checkpoint()).expect_partial()
    for ours, theirs in zip(loaded.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert not any("begins anew" in line for line in log_lines)


@pytest.mark.slow
def test_slots_follow_on_replicas_and_with_a_scaled_loss(data, batches, mirrored, tmp_path, log_lines):
    def scaled(frozen):
        optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(0.1), dynamic=False, initial_scale=8)
        return build(frozen=frozen, optimizer=optimizer)

    train(scaled(2), tmp_path, data, batches, train_distribute=mirrored(2))
    estimator = train(scaled(1), tmp_path, data, batches, train_distribute=mirrored(2))
    assert any(line.startswith("The optimizer starts without state for 2 variables") for line in log_lines)
    assert estimator.evaluate(batches(data, 32))["global_step"] == 4
