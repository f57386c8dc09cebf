"""The face of the private room for the application: small, explained, and the same for both Kerases."""

import re
from pathlib import Path

import keras as keras3
import numpy as np
import pytest
import tf_keras

import estimator_train
from estimator_train._engine import application

_APP = Path(estimator_train.__file__).parent / "app"


def test_the_face_explains_each_of_its_names_and_the_application_takes_it():
    taken = set()
    for path in _APP.rglob("*.py"):
        for names in re.findall(r"from estimator_train\._engine\.application import (.+)", path.read_text()):
            taken |= set(names.split(", "))
    assert taken == set(application.__all__)
    assert not [name for name in application.__all__ if f"`{name}`" not in application.__doc__]


@pytest.mark.parametrize("keras", [tf_keras, keras3])
def test_models_of_both_kerases_give_the_same_answers(keras):
    model = keras.Sequential([keras.Input((3,), name="pixels"), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    assert application.keras_of(model) is keras
    assert application.compile_arguments(model)["loss"] == "mse"
    assert application.compile_arguments(model)["optimizer"] is model.optimizer
    (shape,) = [each.shape for each in application.inputs_of(model).values()]
    assert tuple(shape) == (None, 3)
    copy = application.copy_of(model)
    copy.set_weights([np.zeros((3, 2)), np.ones(2)])
    assert np.any(model.get_weights()[0])
    with pytest.raises(ValueError, match="must be a compiled Keras model"):
        application.keras_of("model")


def test_only_functional_models_are_taken_apart():
    inside = tf_keras.Sequential([tf_keras.Input((3,)), tf_keras.layers.Dense(2), tf_keras.layers.ReLU()])
    model = tf_keras.Sequential([tf_keras.Input((3,)), inside, tf_keras.layers.Dense(1)])
    calls, outputs = application.layer_calls(model, "a setting")
    assert [type(call.layer).__name__ for call in calls] == ["Dense", "ReLU", "Dense"]
    assert [tuple(output.shape) for output in outputs] == [(None, 1)]
    assert application.layer_calls(type("Own", (tf_keras.Model,), {})(), "a setting") is None


def test_workers_of_one_process_have_nothing_to_agree_upon():
    assert application.sums_of_workers(None) is None
