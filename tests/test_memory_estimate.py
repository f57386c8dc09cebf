"""The memory estimate counts what a step keeps alive at once on each device, without running it."""

import subprocess
import sys

import keras as keras_3
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train.memory_estimate import HEADROOM, estimate, fits
from examples.unet3d import build_model

layers = keras.layers
FLOAT = 4


@pytest.fixture
def dense():
    model = keras.Sequential([keras.Input((100,)), layers.Dense(50, "tanh"), layers.Dense(10)])
    model.compile("adam", "mse")
    return model


def test_weights_and_slots_are_counted_exactly(dense):
    (device,) = estimate(dense, batch_size=1)
    parameters = 100 * 50 + 50 + 50 * 10 + 10
    assert device.weights == parameters * FLOAT
    assert device.optimizer == 2 * parameters * FLOAT
    dense.layers[0].trainable = False
    dense.compile(keras.optimizers.SGD(momentum=0.9), "mse")
    assert estimate(dense, batch_size=1)[0].optimizer == (50 * 10 + 10) * FLOAT


def test_what_is_not_needed_any_more_is_not_counted():
    inputs = outputs = keras.Input((1000,))
    for _ in range(20):
        outputs = layers.Activation("linear")(layers.Rescaling(2.0)(outputs))  # neither is needed backward
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse")
    (device,) = estimate(model, batch_size=4)
    assert device.activations < 4 * 4 * 1000 * FLOAT


@pytest.mark.slow
def test_activations_grow_with_the_batch_and_are_shared_out():
    model = build_model(64, 2, poolings=1)
    one, two = (estimate(model, batch_size)[0] for batch_size in (1, 2))
    assert two.weights == one.weights
    assert two.activations == pytest.approx(2 * one.activations, rel=0.1)
    split = estimate(model, 1, device_count=4)
    assert len(split) == 4
    assert sum(device.weights for device in split) == one.weights
    assert max(device.activations for device in split) < 0.6 * one.activations


def test_a_model_that_no_device_could_hold_is_estimated():
    (device,) = estimate(build_model(512, filters=2, poolings=1), batch_size=64)
    assert device.activations > 9e11
    assert not fits([device], 80e9)


def test_a_device_needs_headroom(dense):
    (device,) = estimate(dense, batch_size=1)
    assert fits([device], 2 * device.total) and not fits([device], 1.01 * device.total)
    assert not fits([device, device._replace(activations=10 * device.total)], 2 * device.total)


@pytest.mark.gpu
def test_a_model_that_fits_trains_on_a_gpu_of_that_much_memory(tmp_path):
    with tf.device("CPU:0"):
        convolutions = [layers.Conv2D(32, 3, padding="same", activation="relu") for _ in range(8)]
        head = [layers.GlobalAveragePooling2D(), layers.Dense(2)]
        model = keras.Sequential([keras.Input((128, 128, 3)), *convolutions, *head])
        model.compile("adam", "mse")
    (device,) = estimate(model, batch_size=16)
    model.save(tmp_path / "model.h5")
    # In a process of its own, because the memory of a GPU can be limited only before it is opened.
    program = f"""
import estimator_train as et
import tensorflow as tf
import tf_keras as keras

memory = tf.config.LogicalDeviceConfiguration(memory_limit={int(HEADROOM * device.total / 2**20)})
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("GPU")[0], [memory])
config = et.RunConfig(train_distribute=tf.distribute.MirroredStrategy(["GPU:0"]))
with tf.device("CPU:0"):
    model, batch = keras.models.load_model("model.h5"), (tf.zeros([16, 128, 128, 3]), tf.zeros([16, 2]))
et.model_to_estimator(model, config=config).train(lambda: tf.data.Dataset.from_tensors(batch).repeat(), steps=2)
assert tf.config.experimental.get_memory_info("GPU:0")["peak"] > {device.total / 2}
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)


@pytest.mark.slow
def test_mixed_precision_halves_activations():
    try:
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
        mixed = build_model(64, 2, poolings=1)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    whole, half = estimate(build_model(64, 2, poolings=1), 1)[0], estimate(mixed, 1)[0]
    assert half.activations < 0.75 * whole.activations
    assert half.weights == whole.weights


def test_a_model_that_cannot_be_estimated_is_refused():
    with pytest.raises(ValueError, match="pass a functional or Sequential model of tf_keras"):
        estimate(keras_3.Sequential([keras_3.Input((2,)), keras_3.layers.Dense(1)]), 1)
    with pytest.raises(ValueError, match="has not been compiled; its optimizer needs memory, too"):
        estimate(keras.Sequential([keras.layers.Dense(1, input_shape=(2,))]), 1)


def test_devices_of_the_machine_are_not_asked_for(dense):
    assert not tf.config.list_physical_devices("GPU")
    assert len(estimate(dense, 1, device_count=2)) == 2
