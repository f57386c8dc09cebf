"""warm_start_from: a model begins with the weights of a checkpoint, and with nothing else of it."""

import importlib

import numpy as np
import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train._engine.keras.source import ModelSource


def build(keras, classes=3, rate=0.1, frozen=False):
    """A compiled classifier with a base, frozen or not, and a head."""
    base = keras.layers.Dense(8, activation="tanh", trainable=not frozen)
    model = keras.Sequential([keras.Input((4,)), base, keras.layers.Dense(classes, activation="softmax")])
    model.compile(keras.optimizers.Adam(rate), "categorical_crossentropy", metrics=["accuracy"])
    return model


@pytest.fixture(params=["tf_keras", "keras"], scope="module")
def keras(request):
    return importlib.import_module(request.param)


fast_keras_3 = pytest.mark.parametrize(
    "keras", [pytest.param("tf_keras", marks=pytest.mark.slow), "keras"], indirect=True
)


@pytest.fixture(scope="module")
def trained(keras, data, batches, tmp_path_factory):
    """The Estimator of a model with a trained head."""
    keras.utils.set_random_seed(7)
    estimator = et.model_to_estimator(build(keras, frozen=True), model_dir=tmp_path_factory.mktemp("head"))
    return estimator.train(batches(data, 16), steps=4)


@pytest.mark.slow
def test_a_second_phase_starts_at_step_0_from_the_first_phases_weights(
    keras, trained, data, batches, tmp_path, log_lines
):
    expected = trained.evaluate(batches(data, 32))
    whole = build(keras, rate=1e-3)
    estimator = et.model_to_estimator(whole, model_dir=tmp_path / "whole", warm_start_from=trained.model_dir)
    assert f"Warm-starting from {trained.latest_checkpoint()}" in log_lines
    begun = estimator.evaluate(batches(data, 32))
    assert begun.pop("global_step") == 0
    assert begun == {name: value for name, value in expected.items() if name != "global_step"}
    estimator.train(batches(data, 16), steps=2)
    assert estimator.get_variable_value("global_step") == 2
    names = estimator.get_variable_names()
    (rate,) = [name for name in names if name.startswith("estimator_hyperparameters/learning_rate")]
    assert estimator.get_variable_value(rate) == np.float32(1e-3)
    # If model_dir has a checkpoint, training continues from it.
    again = et.model_to_estimator(build(keras), model_dir=tmp_path / "whole", warm_start_from=trained.model_dir)
    assert again.evaluate(batches(data, 32)) == estimator.evaluate(batches(data, 32))


@fast_keras_3
def test_a_new_head_keeps_its_own_weights_and_is_named(keras, trained, warnings, data):
    model = build(keras, classes=5)
    head = model.layers[-1].get_weights()
    estimator = et.model_to_estimator(lambda: model, warm_start_from=trained.latest_checkpoint())
    (line,) = [line for line in warnings if "keep their own values" in line]
    assert "(8, 3) in the checkpoint and (8, 5) here" in line
    dataset = tf.data.Dataset.from_tensors(data[0][:1])
    (prediction,) = estimator.predict(lambda: dataset)
    base = build(keras)
    tf.train.Checkpoint(base).read(trained.latest_checkpoint()).expect_partial()
    logits = base.layers[0](data[0][:1]).numpy() @ head[0] + head[1]
    np.testing.assert_allclose(*prediction.values(), tf.nn.softmax(logits)[0], rtol=1e-5)


@fast_keras_3
def test_a_warm_start_makes_no_copy_of_the_model_of_its_own(keras, trained, data, batches, monkeypatch):
    expected, copies, copy = trained.evaluate(batches(data, 32)), [], ModelSource.copy
    monkeypatch.setattr(ModelSource, "copy", lambda source, *given: copies.append(given) or copy(source, *given))
    estimator = et.model_to_estimator(build(keras), warm_start_from=trained.model_dir)
    assert not copies
    assert estimator.evaluate(batches(data, 32))["loss"] == expected["loss"] and len(copies) == 1


@fast_keras_3
def test_what_has_nothing_of_the_model_is_refused(keras, trained, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty' has no checkpoint; pass a directory that has one, or its prefix"):
        et.model_to_estimator(build(keras), warm_start_from=tmp_path / "empty")
    with pytest.raises(ValueError, match="none-3 cannot be read"):
        et.model_to_estimator(build(keras), warm_start_from=tmp_path / "none-3")
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    other.compile("sgd", "mse")
    with pytest.raises(ValueError, match="is of another model: .* in the checkpoint and .* here"):
        et.model_to_estimator(other, warm_start_from=trained.model_dir)
