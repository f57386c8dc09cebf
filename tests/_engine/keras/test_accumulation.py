"""accumulate_steps: the mean gradient of several batches makes one update, which is one global step."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train._engine.remedies import UnsuitableError

layers = keras.layers


@pytest.fixture(scope="module")
def train(classifier, data, batches, tmp_path_factory):
    """Gives the metrics of a model trained on two epochs of 96 examples, and its TimingHook's summary."""
    keras.utils.set_random_seed(7)
    model = classifier(keras.optimizers.SGD(0.1))

    def train(batch_size, **config):
        folder = tmp_path_factory.mktemp("run")
        estimator = et.model_to_estimator(model, model_dir=folder, config=et.RunConfig(**config))
        timing = et.TimingHook()
        estimator.train(batches(tuple(array[:96] for array in data), batch_size, epochs=2), hooks=[timing])
        return estimator.evaluate(batches(data, 32)), timing.summary()

    return train


@pytest.fixture(scope="module")
def whole(train):
    """Returns the metrics of training on batches of 48 examples."""
    return train(48)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch_size", "replicas", "config"),
    [
        (12, 1, {"accumulate_steps": 4, "steps_per_loop": 3, "jit_compile": True}),
        (12, 2, {"accumulate_steps": 2}),
    ],
)
def test_small_batches_train_as_the_large_ones_that_they_make(batch_size, replicas, config, train, whole, mirrored):
    accumulated, timing = train(batch_size, train_distribute=mirrored(replicas), **config)
    assert accumulated["global_step"] == 4
    assert accumulated == pytest.approx(whole, abs=1e-5)
    assert timing["steps"] + timing["warmup_steps"] == 4


@pytest.mark.slow
def test_what_is_left_at_the_end_makes_an_update_of_its_own(train):
    metrics, _ = train(40, accumulate_steps=4)  # batches of 40, 40, 40, 40 and 32 examples
    assert metrics["global_step"] == 2


@pytest.mark.slow
def test_the_batches_of_a_step_that_failed_are_in_no_other(classifier, data, batches, mirrored, tmp_path):
    config = et.RunConfig(accumulate_steps=4, train_distribute=mirrored(2))
    model, good = classifier(keras.optimizers.SGD(0.1), metrics=()), batches(tuple(array[:96] for array in data), 12)

    def fails():
        def check(*batch):
            with tf.control_dependencies([tf.debugging.Assert(batch[1][0, 0] < -1, ["broken"])]):
                return tf.nest.map_structure(tf.identity, batch)

        return good().take(4).concatenate(good().map(check))

    clean, failed = (et.model_to_estimator(model, model_dir=tmp_path / name, config=config) for name in "ab")
    with pytest.raises(tf.errors.InvalidArgumentError, match="broken"):
        failed.train(fails)
    kernels = [name for name in clean.train(good).get_variable_names() if "kernel" in name]
    failed.train(good)
    for name in kernels:
        np.testing.assert_allclose(failed.get_variable_value(name), clean.get_variable_value(name), rtol=1e-6)


@pytest.mark.slow
def test_the_loss_is_scaled_once_in_mixed_precision(train, whole):
    accumulated, _ = train(12, accumulate_steps=4, mixed_precision="float16")
    assert accumulated["loss"] == pytest.approx(whole["loss"], abs=1e-2)


def test_a_training_step_of_the_models_own_is_refused(tmp_path):
    class Own(keras.Sequential):
        def train_step(self, data):
            return super().train_step(data)

    model = Own([layers.Dense(1, input_shape=(4,))])
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(model, model_dir=tmp_path, config=et.RunConfig(accumulate_steps=2))
    with pytest.raises(UnsuitableError, match="Own overrides train_step; accumulate there, or leave out accumulate"):
        estimator.train(lambda: tf.data.Dataset.from_tensors((tf.ones((2, 4)), tf.ones((2, 1)))))


@pytest.mark.parametrize("generation", [pytest.param("tf_keras", marks=pytest.mark.slow), "keras"])
def test_a_variable_without_gradient_is_not_updated(generation, batches, tmp_path):
    keras = pytest.importorskip(generation)
    inputs = keras.Input((4,))
    features = keras.layers.Dense(2, name="stopped")(inputs)
    stopped = keras.layers.Lambda(tf.stop_gradient, output_shape=(2,))(features)
    model = keras.Model(inputs, keras.layers.Dense(1)(stopped))
    model.compile(keras.optimizers.AdamW(0.1, weight_decay=0.5), "mse")
    before = model.get_weights()
    data = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
    estimator = et.model_to_estimator(model, config=et.RunConfig(tmp_path, accumulate_steps=2))
    estimator.train(batches(data, 4))
    saved = {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}
    kernels = {value.shape: value for name, value in saved.items() if "kernel" in name}
    np.testing.assert_array_equal(kernels[4, 2], before[0])
    assert not np.array_equal(kernels[2, 1], before[2])
