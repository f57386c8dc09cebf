"""A lambda in a model file, Python code of a stranger, runs only where that is asked for."""

import numpy as np
import pytest
import tf_keras as keras
from slow_cases import slow

import estimator_train as et
from estimator_train.compat.drop_in import keras_lib

NAMES = ["model.keras", "model.h5", "model"]


@pytest.fixture(params=NAMES)
def file(request, tmp_path):
    """A model with a Lambda layer, saved in each format; its code leaves a file when it runs."""
    mark = str(tmp_path / "ran")
    features = keras.Input([4])
    doubled = keras.layers.Lambda(lambda values, mark=mark: (2 * values, open(mark, "w").close())[0])(features)
    model = keras.Model(features, keras.layers.Dense(1)(doubled))
    model.compile("sgd", "mse")
    model.save(tmp_path / request.param)
    (tmp_path / "ran").unlink(missing_ok=True)
    return tmp_path / request.param


fast_files = pytest.mark.parametrize("file", ["model.keras", "model.h5", slow("model")], indirect=True)
fast_h5 = pytest.mark.parametrize("file", [slow("model.keras"), "model.h5", slow("model")], indirect=True)


@fast_files
def test_a_file_with_a_lambda_is_refused_in_every_format(file, tmp_path):
    with pytest.raises(ValueError, match=f"^{file} contains a lambda, .*; pass safe_mode=False if you trust") as caught:
        et.model_to_estimator(keras_model_path=file, model_dir=tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


@fast_h5
def test_a_file_with_a_lambda_is_loaded_where_asked(file, batches, tmp_path):
    estimator = et.model_to_estimator(keras_model_path=file, model_dir=tmp_path / "run", safe_mode=False)
    estimator.train(batches((np.ones((8, 4), "float32"), np.ones((8, 1), "float32")), 4))
    assert (tmp_path / "ran").exists()


@fast_files
def test_the_drop_in_warns_and_loads_but_for_keras_files(file, tmp_path, warnings):
    if file.suffix == ".keras":
        with pytest.raises(ValueError, match="TensorFlow 2.15 refused it, too; if you trust the file, load it"):
            keras_lib.model_to_estimator(keras_model_path=file, model_dir=tmp_path / "run")
        return
    keras_lib.model_to_estimator(keras_model_path=file, model_dir=tmp_path / "run")
    (line,) = [line for line in warnings if "lambda" in line]
    assert line.startswith(f"{file} contains a lambda") and "\n" not in line


def test_a_file_without_a_lambda_is_loaded(classifier, data, batches, tmp_path):
    classifier().save(tmp_path / "model.h5")
    estimator = et.model_to_estimator(keras_model_path=tmp_path / "model.h5", model_dir=tmp_path / "run")
    assert estimator.evaluate(batches(data, 48))["global_step"] == 0


def test_the_model_fn_of_a_keras_model_is_not_for_calls(classifier, tmp_path):
    estimator = et.model_to_estimator(classifier(), model_dir=tmp_path)
    with pytest.raises(ValueError, match="^The Estimator of a Keras model has no model_fn to call"):
        estimator.model_fn({}, None, et.ModeKeys.PREDICT, None)
