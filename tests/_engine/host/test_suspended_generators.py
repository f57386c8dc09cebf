"""Generators of predictions that a program leaves behind at exit."""

import subprocess
import sys

import pytest

from estimator_train._engine.host import suspended_generators


def test_a_generator_that_is_not_read_to_the_end_is_closed():
    closed = []

    def numbers(name):
        try:
            yield from range(3)
        finally:
            closed.append(name)

    left, read, new = (suspended_generators.closed_at_exit(numbers(name)) for name in ("left", "read", "new"))
    assert next(left) == 0 and list(read) == [0, 1, 2]
    suspended_generators.close_all()
    assert closed == ["read", "left"] and list(left) == list(new) == []


PROGRAM = """
import estimator_train as et, tensorflow as tf
v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")
def model_fn(features, labels, mode):
    v1.train.get_global_step()
    return et.EstimatorSpec(mode, predictions={"y": features + v1.get_variable("w", initializer=0.0)})

model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
model.compile("sgd", "mse")
data = lambda: tf.data.Dataset.from_tensor_slices([[1.0]] * 4).batch(2)
left = [estimator.predict(data) for estimator in (et.Estimator(model_fn), et.model_to_estimator(model))]
print([len(next(predictions)) for predictions in left])
"""


@pytest.mark.slow
def test_a_program_that_leaves_predictions_behind_ends_in_silence():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "[1, 1]\n")
    assert "Exception ignored" not in done.stderr and "Traceback" not in done.stderr
