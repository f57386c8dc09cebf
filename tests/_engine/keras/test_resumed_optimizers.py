"""Optimizers of both Kerases: 3 more steps in a new process give the numbers of 6, which are those of fit."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import warm_python
from runs import copy_as_of

import estimator_train as et

_PROGRAM = Path(__file__).parents[2] / "helpers" / "resumed_optimizers.py"


@pytest.mark.slow
def test_optimizers_resume_with_the_numbers_of_an_unbroken_training(tmp_path):
    pytest.importorskip("keras", minversion="3")
    first, second = (
        warm_python.run([_PROGRAM, tmp_path / "runs", *resume], tmp_path, timeout=600) for resume in ([], ["resume"])
    )
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert second.stdout == "" and second.stderr.count(" done") >= 13


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["tf_keras", "keras"])
def test_float16_resumes_with_the_numbers_of_an_unbroken_training(generation, data, tmp_path):
    kerases = pytest.importorskip(generation)
    large = data[0], data[1] * 1000  # the first gradients overflow

    def train(folder, **options):
        config = et.RunConfig(folder, mixed_precision="float16", accumulate_steps=2, resume_input=True, **options)
        kerases.utils.set_random_seed(7)
        model = kerases.Sequential([kerases.Input((4,)), kerases.layers.Dense(8, "tanh"), kerases.layers.Dense(3)])
        model.compile(kerases.optimizers.Adam(0.05, use_ema=True), "mse")
        estimator = et.model_to_estimator(model, config=config)
        estimator.train(lambda: tf.data.Dataset.from_tensor_slices(large).batch(8).repeat(), max_steps=12)
        return variables_of(estimator)

    whole = train(tmp_path / "whole", save_checkpoints_steps=4)
    parts = train(copy_as_of(4, tmp_path / "whole", tmp_path / "parts"))
    assert parts.keys() == whole.keys()
    assert generation == "keras" or whole["optimizer/loss_scale/current_loss_scale/.ATTRIBUTES/VARIABLE_VALUE"] < 2**15
    for name, values in whole.items():
        np.testing.assert_array_equal(parts[name], values, err_msg=name)


# tests/laws/test_resume.py has Adam.
@pytest.mark.slow
def test_nadam_of_tf_keras_multiplies_its_momenta_once_a_step_of_replicas(data, mirrored, tmp_path):
    layers = keras.layers

    def train(folder, **options):
        keras.utils.set_random_seed(7)
        body = [layers.Dense(8, "tanh"), layers.BatchNormalization(momentum=0.9), layers.Dense(3)]
        model = keras.Sequential([keras.Input((4,)), *body])
        model.compile(keras.optimizers.Nadam(0.05), "mse")
        config = et.RunConfig(str(folder), resume_input=True, train_distribute=mirrored(2), **options)
        estimator = et.model_to_estimator(model, config=config)
        estimator.train(lambda: tf.data.Dataset.from_tensor_slices(data).batch(8).repeat(), max_steps=6)
        return variables_of(estimator)

    whole = train(tmp_path / "whole", save_checkpoints_steps=3)
    parts = train(copy_as_of(3, tmp_path / "whole", tmp_path / "parts"))
    assert whole.keys() == parts.keys() and len(whole) > 8
    for name, values in whole.items():
        np.testing.assert_allclose(parts[name], values, rtol=0, atol=1e-6 if "moving" in name else 0, err_msg=name)


def variables_of(estimator):
    """Returns the weights and the optimizer's variables in the newest checkpoint."""
    names = [name for name in estimator.get_variable_names() if name.startswith(("layer", "_functional", "optimizer"))]
    return {name: estimator.get_variable_value(name) for name in names}
