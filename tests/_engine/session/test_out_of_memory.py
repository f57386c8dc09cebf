"""Out-of-memory errors begin with the tensor, the device and what to try."""

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train._engine.session.out_of_memory import explaining_oom

BEYOND_ANY_ADDRESS_SPACE = [2**16, 2**16, 2**16]


@tf.function
def step(value):
    with tf.device("CPU:1"):
        return tf.reduce_sum(tf.fill(BEYOND_ANY_ADDRESS_SPACE, value, name="large"))


def test_the_error_names_the_tensor_the_device_and_what_to_try_in_order():
    with pytest.raises(tf.errors.ResourceExhaustedError) as caught, explaining_oom():
        step(tf.constant(1.0))
    line, *of_tensorflow = caught.value.message.splitlines()
    assert line.startswith("CPU:1 is out of memory for the tensor float [65536,65536,65536] of large. Try, in this")
    attempts = ["smaller batch per replica", "mixed precision", "recomputing activations", "accumulating", "split"]
    places = [line.index(attempt) for attempt in attempts]
    assert places == sorted(places)
    assert any("OOM when allocating" in each for each in of_tensorflow)


def test_a_message_without_a_tensor_gets_advice_too():
    message = "Out of memory while trying to allocate 2147483648 bytes."
    with (
        pytest.raises(tf.errors.ResourceExhaustedError, match="^a device is out of memory") as caught,
        explaining_oom(),
    ):
        raise tf.errors.ResourceExhaustedError(None, None, message)
    assert caught.value.message.endswith(message)


def test_running_out_of_memory_in_a_model_fn_lists_what_else_was_in_memory(tmp_path):
    def model_fn(features, labels, mode):
        held = tf.random.normal([1000], name="held")
        large = tf.reduce_sum(tf.fill(BEYOND_ANY_ADDRESS_SPACE, tf.reduce_sum(held)))
        loss = large + tf.reduce_sum(held)
        return et.EstimatorSpec(mode, loss=loss, train_op=tf.compat.v1.train.get_global_step().assign_add(1))

    estimator = et.Estimator(model_fn, str(tmp_path))
    said = r"CPU:0 is out of memory(.|\n)*Current usage from device"
    with pytest.raises(tf.errors.ResourceExhaustedError, match=said):
        estimator.train(lambda: tf.data.Dataset.from_tensors(([1.0], [1.0])), steps=1)
