"""Training makes exactly the steps that it is asked for; training and evaluation use every example once."""

import numpy as np
import pytest
import tensorflow as tf
from kinds import KERASES, ROWS, checkpoint_steps, config, counter, counts, each_kind, global_step, rows, variables


def optimizer_steps(estimator):
    """Returns the number of steps that the optimizer of a Keras model has counted."""
    (steps,) = (value for name, value in variables(estimator).items() if "iterations" in name)
    return steps


@pytest.mark.smoke
@each_kind("tf_keras", "model_fn")
def test_training_makes_exactly_the_steps_that_it_is_asked_for(kind, tmp_path, log_lines):
    def after(estimator):
        return global_step(estimator), counts(estimator)

    estimator = counter(kind, config(tmp_path, steps_per_loop=2))
    assert estimator.train(rows(), steps=3) is estimator
    assert after(estimator) == (3, [1] * 3 + [0] * 9)

    for _ in range(2):  # the second Estimator finds the first one's checkpoint
        estimator = counter(kind, config(tmp_path, steps_per_loop="auto"))
        estimator.train(rows(epochs=3), max_steps=5)
        assert after(estimator) == (5, [2] * 2 + [1] + [0] * 9)  # each call restarts the data
    assert log_lines.count("Skipping training since max_steps has already saved.") == 1

    estimator = counter(kind, config(tmp_path, steps_per_loop=7))
    estimator.train(rows())  # to the end of data
    assert after(estimator) == (17, [3] * 2 + [2] + [1] * 9)
    assert checkpoint_steps(estimator) == [0, 3, 5, 17]
    assert kind not in KERASES or optimizer_steps(estimator) == 17


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "replicas", "batch_size", "steps"), [("tf_keras", 2, 11, 1), ("keras3", 3, 1, 4)], ids=str
)
def test_training_uses_every_example_once_on_replicas(kind, replicas, batch_size, steps, tmp_path, mirrored):
    estimator = counter(kind, config(tmp_path, mirrored(replicas))).train(rows(batch_size=batch_size))
    assert counts(estimator) == [1] * 12
    assert global_step(estimator) == optimizer_steps(estimator) == steps


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tf_keras", "keras3", "model_fn"])  # a canned estimator evaluates as a model_fn
def test_evaluation_uses_every_example_once_on_replicas(kind, tmp_path, mirrored):
    # The last batch is a short one, or smaller than the replicas are many, or there is none for the second replica.
    sizes = {None: [(33, 16)], 2: [(96, 7), (96, 32)], 3: [(96, 50), (4, 3)]}
    for replicas, data in sizes.items():
        estimator = counter(kind, config(tmp_path, mirrored(replicas)))
        for examples, batch_size in data:
            results = estimator.evaluate(numbered(examples, batch_size))
            assert results["mae"] == (examples - 1) / 2, (replicas, examples, batch_size)


def numbered(examples, batch_size):
    """An input_fn of zeros, for which an untrained counter gives 0, labelled 0, 1, ..."""
    labels = np.arange(examples, dtype="float32")[:, np.newaxis]
    zeros = np.zeros((examples, ROWS), "float32")
    return lambda: tf.data.Dataset.from_tensor_slices((zeros, labels)).batch(batch_size)
