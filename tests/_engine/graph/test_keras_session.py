"""Weights that a model_fn gives its Keras models are the initial values of its variables."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et

v1 = tf.compat.v1
X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
Y = X.sum(1, keepdims=True)


def untrained():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="base"), keras.layers.BatchNormalization()])


@pytest.fixture
def pretrained():
    model = untrained()
    rng = np.random.default_rng(1)
    model.set_weights([rng.uniform(0.5, 1.5, weight.shape) for weight in model.get_weights()])
    return model


def input_fn(batch_size):
    return lambda: tf.data.Dataset.from_tensor_slices((X, Y)).batch(batch_size).repeat()


def estimator_of(load, folder, replicas=None, rate=0.001, after_load=lambda: None, **options):
    """Returns the estimator of a model_fn that adds a layer to the loaded model, and a list that gets its losses."""

    def model_fn(features, labels, mode):
        base = load()
        after_load()
        outputs = keras.layers.Dense(1, kernel_initializer="ones", name="head")(base(features, training=False))
        loss = tf.reduce_mean((outputs - labels) ** 2)
        train_op = v1.train.MomentumOptimizer(rate, 0.9).minimize(loss, v1.train.get_or_create_global_step())
        return et.EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = et.RunConfig(folder, train_distribute=replicas, save_summary_steps=1, checkpoint_save_graph_def=False)
    return et.Estimator(model_fn, config=config, **options)


class Losses(v1.train.SessionRunHook):
    def begin(self):
        self.values = []
        (self._loss,) = v1.get_collection(v1.GraphKeys.LOSSES)

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


def loss_of(model):
    return np.mean((model(X, training=False).numpy().sum(1, keepdims=True) - Y) ** 2)


def given(weights):
    def load():
        model = untrained()
        model.set_weights(weights)
        return model

    return load


@pytest.mark.parametrize("replicas", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_training_starts_from_the_weights_and_resumes_from_its_own(replicas, pretrained, mirrored, tmp_path):
    losses, weights, expected = Losses(), pretrained.get_weights(), loss_of(pretrained)
    for last_step in (2, 3):
        estimator = estimator_of(given(weights), tmp_path, mirrored(replicas))
        estimator.train(input_fn(8 // (replicas or 1)), hooks=[losses], max_steps=last_step)
        if last_step == 2:
            first, second = losses.values
    assert first == pytest.approx(expected, rel=1e-5)
    assert losses.values[0] < second < first
    values = [estimator.get_variable_value(name) for name in ("base/kernel", "batch_normalization/moving_mean")]
    assert not np.allclose(values[0], weights[0])
    np.testing.assert_array_equal(values[1], weights[4])


@pytest.mark.parametrize(
    "file",
    [
        "weights.h5",
        pytest.param("weights", marks=pytest.mark.slow),
        pytest.param("own.weights.h5", marks=pytest.mark.slow),
        pytest.param("model.h5", marks=pytest.mark.slow),
        pytest.param("model", marks=pytest.mark.slow),
        pytest.param("model.keras", marks=pytest.mark.slow),
    ],
)
def test_weights_of_every_kind_of_file_count(file, pretrained, tmp_path):
    path, is_model, expected = str(tmp_path / file), file.startswith("model"), loss_of(pretrained)
    (pretrained.save if is_model else pretrained.save_weights)(path)

    def load():
        if is_model:
            return keras.models.load_model(path, compile=False)
        model = untrained()
        model.load_weights(path)
        return model

    losses = Losses()
    estimator_of(load, tmp_path / "run").train(input_fn(8), hooks=[losses], steps=1)
    assert losses.values == [pytest.approx(expected, rel=1e-5)]


@pytest.mark.slow
def test_a_later_checkpoint_or_a_warm_start_replaces_the_weights(pretrained, tmp_path):
    weights = pretrained.get_weights()
    first = estimator_of(untrained, tmp_path / "first", rate=0.0)
    first.train(input_fn(8), steps=1)
    path, name = first.latest_checkpoint(), "base/kernel"

    def init_from_checkpoint():
        v1.train.init_from_checkpoint(path, {name: next(v for v in v1.global_variables() if v.op.name == name)})

    for folder, options in (("init", {"after_load": init_from_checkpoint}), ("warm", {"warm_start_from": path})):
        later = estimator_of(given(weights), tmp_path / folder, rate=0.0, **options)
        later.train(input_fn(8), steps=1)
        np.testing.assert_array_equal(later.get_variable_value(name), first.get_variable_value(name))


def test_the_session_that_keras_had_comes_back_if_no_weights_are_set(tmp_path):
    with tf.Graph().as_default():
        before = v1.keras.backend.get_session()
        estimator_of(untrained, tmp_path).train(input_fn(8), steps=1)
        assert v1.keras.backend.get_session() is before
