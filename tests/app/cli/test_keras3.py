"""The command trains, evaluates and exports a Keras 3 model from the user's file."""

import runpy

import keras
import numpy as np
import pytest
import tensorflow as tf

from estimator_train._engine.exports.directories import exports_in


@pytest.fixture
def run(command, own_flags, tmp_path):
    """A trained run of a Keras 3 model, with the averages of an optimizer; gives its flags for other commands."""
    own = tmp_path / "own.py"
    code = own.read_text().replace("import tf_keras as keras", "import keras")
    code = code.replace("input_shape=(1,))])", ")])").replace("Sequential([", "Sequential([keras.Input((1,)), ")
    own.write_text(code.replace("SGD(0.05)", "SGD(0.05, momentum=0.5, use_ema=True, ema_momentum=0.5)"))
    code, _, errors = command(*own_flags, "--model-dir", "run", "--max-steps", "4")
    assert code == 0, errors
    return ["--model-dir", "run"]


@pytest.mark.slow
def test_a_keras_3_model_is_trained_evaluated_and_exported_in_every_format(run, command):
    code, output, errors = command("evaluate", *run)
    assert code == 0, errors
    for file_format in ("keras", "weights", "saved_model"):
        folder = "saved" if file_format == "saved_model" else "exported"
        code, output, errors = command("export", *run, "--format", file_format, "--out", folder)
        assert code == 0, errors
    assert command("export", *run, "--format", "weights", "--out", "exported")[0] == 2  # it is there already

    model = keras.models.load_model("exported/model.keras")
    assert int(model.optimizer.iterations) == 4
    assert any(np.any(variable.numpy()) for variable in model.optimizer.variables[2:])  # SGD's momentum
    built = runpy.run_path("own.py")["build"]()
    built.load_weights("exported/model.weights.h5")
    serve = tf.saved_model.load(exports_in("saved")[-1]).signatures["serving_default"]
    (name,) = serve.structured_input_signature[1]
    (served,) = serve(**{name: tf.ones([1, 1])}).values()
    expected = model.predict(np.ones([1, 1]), verbose=0)
    assert expected != 0
    np.testing.assert_allclose(built.predict(np.ones([1, 1]), verbose=0), expected, atol=1e-6)
    np.testing.assert_allclose(served, expected, atol=1e-6)


OWN_CODE = """
import keras
import tensorflow as tf
import tf_keras

def build():
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model

def input_fn():
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1])))

def callbacks():
    return [tf_keras.callbacks.TerminateOnNaN()]
"""


def test_callbacks_of_the_other_keras_are_one_line(command, tmp_path):
    (tmp_path / "own.py").write_text(OWN_CODE)
    own = ["--input-fn", "own.py:input_fn", "--eval-input-fn", "own.py:input_fn", "--model", "own.py:build"]
    code, _, errors = command(*own, "--max-steps", "1", "--callbacks", "own.py:callbacks")
    assert code == 2 and "Traceback" not in errors
    assert errors.startswith("estimator_train: The model is of Keras 3, but ") and errors.count("\n") == 1
