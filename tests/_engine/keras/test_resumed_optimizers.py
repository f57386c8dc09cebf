"""Every optimizer of both Kerases: 3 more steps in a new process give the numbers of 6, which are those of fit."""

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
def test_every_optimizer_resumes_with_the_numbers_of_an_unbroken_training(tmp_path):
    pytest.importorskip("keras", minversion="3")
    first, second = (
        warm_python.run([_PROGRAM, tmp_path / "runs", *resume], tmp_path, timeout=600) for resume in ([], ["resume"])
    )
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert second.stdout == "" and second.stderr.count(" done") > 40


@pytest.mark.slow
def test_nadam_resumes_on_replicas_as_if_training_never_stopped(data, batches, mirrored, tmp_path):
    def train(folder, **options):
        keras.utils.set_random_seed(7)
        model = keras.Sequential([keras.layers.Dense(3, input_shape=(4,))])
        model.compile(keras.optimizers.Nadam(0.05), "mse")
        config = et.RunConfig(str(folder), resume_input=True, train_distribute=mirrored(2), **options)
        et.model_to_estimator(model, config=config).train(batches(data, 8), max_steps=4)
        reader = tf.train.load_checkpoint(str(folder / "model.ckpt-4"))
        names = [name for name in reader.get_variable_to_shape_map() if "layer" in name or "optimizer" in name]
        return [reader.get_tensor(name) for name in sorted(names) if name.endswith("VALUE")]

    whole = train(tmp_path / "whole", save_checkpoints_steps=2)
    resumed = train(copy_as_of(2, tmp_path / "whole", tmp_path / "resumed"))
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["tf_keras", "keras"])
@pytest.mark.parametrize("accumulate_steps", [1, 2])
def test_float16_resumes_with_the_numbers_of_an_unbroken_training(generation, accumulate_steps, data, tmp_path):
    kerases = pytest.importorskip(generation)
    large = data[0], data[1] * 1000  # the first gradients overflow

    def train(folder, *last_steps):
        options = {"mixed_precision": "float16", "accumulate_steps": accumulate_steps, "resume_input": True}
        for last_step in last_steps:
            kerases.utils.set_random_seed(7)
            model = kerases.Sequential([kerases.Input((4,)), kerases.layers.Dense(8, "tanh"), kerases.layers.Dense(3)])
            model.compile(kerases.optimizers.Adam(0.05, use_ema=True), "mse")
            estimator = et.model_to_estimator(model, config=et.RunConfig(tmp_path / folder, **options))
            estimator.train(lambda: tf.data.Dataset.from_tensor_slices(large).batch(8).repeat(), max_steps=last_step)
        names = [
            name for name in estimator.get_variable_names() if name.startswith(("layer", "_functional", "optimizer"))
        ]
        return {name: estimator.get_variable_value(name) for name in names}

    whole, parts = train("whole", 16), train("parts", 4, 8, 12, 16)
    assert parts.keys() == whole.keys()
    assert generation == "keras" or whole["optimizer/loss_scale/current_loss_scale/.ATTRIBUTES/VARIABLE_VALUE"] < 2**15
    for name, values in whole.items():
        np.testing.assert_array_equal(parts[name], values, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(("generation", "apart"), [("tf_keras", 1e-6), ("keras", 0)])
def test_batch_norm_on_replicas_resumes_up_to_the_last_bits_of_averages(generation, apart, data, mirrored, tmp_path):
    kerases = pytest.importorskip(generation)
    layers = kerases.layers

    def train(folder, **options):
        kerases.utils.set_random_seed(7)
        body = [layers.Dense(8, "tanh"), layers.BatchNormalization(momentum=0.9), layers.Dense(3)]
        model = kerases.Sequential([kerases.Input((4,)), *body])
        model.compile(kerases.optimizers.SGD(0.05), "mse")
        config = et.RunConfig(str(folder), resume_input=True, train_distribute=mirrored(2), **options)
        estimator = et.model_to_estimator(model, config=config)
        estimator.train(lambda: tf.data.Dataset.from_tensor_slices(data).batch(8).repeat(), max_steps=12)
        names = [name for name in estimator.get_variable_names() if name.startswith(("layer", "_functional"))]
        return {name: estimator.get_variable_value(name) for name in names}

    whole = train(tmp_path / "whole", save_checkpoints_steps=3)
    parts = train(copy_as_of(3, tmp_path / "whole", tmp_path / "parts"))
    assert whole.keys() == parts.keys() and len(whole) == 8
    for name, values in whole.items():
        np.testing.assert_allclose(parts[name], values, rtol=0, atol=apart if "moving" in name else 0, err_msg=name)
