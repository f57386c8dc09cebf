"""Dropout and other random layers of tf_keras: the same numbers in a resumed training as in an unbroken one."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from runs import copy_as_of

import estimator_train as et
from estimator_train import input_fns
from estimator_train._engine.keras import model_state

layers = keras.layers


class Recording(layers.Layer):
    """Notes the batches that it is given in training."""

    def __init__(self, seen):
        super().__init__()
        self._seen = seen

    def call(self, inputs, training=None):
        if training:
            tf.numpy_function(lambda batch: self._seen.append(batch.copy()), [inputs], [])
        return inputs


def train(model_dir, between, last_step, replicas=None, **options):
    """Trains a model with the layers of `between()` up to `last_step`, and returns its last weights.

    `between` may also be the class of a model.
    """
    features = np.random.default_rng(1).normal(size=(32, 16)).astype("float32")
    input_fn = input_fns.arrays(features, features[:, :1] * 2, batch_size=4, shuffle=True, num_epochs=None)
    quiet = {"log_step_count_steps": None, "save_summary_steps": None, "checkpoint_save_graph_def": False}
    config = et.RunConfig(str(model_dir), train_distribute=replicas, resume_input=True, **quiet, **options)
    keras.utils.set_random_seed(3)
    is_model = isinstance(between, type)
    inner = [] if is_model else [layers.Input([16]), layers.Dense(16), *between(), layers.Dense(1)]
    model = between() if is_model else keras.Sequential(inner)
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(model, config=config)
    estimator.train(input_fn, max_steps=last_step)
    return [estimator.get_variable_value(name) for name in sorted(estimator.get_variable_names()) if "kernel/" in name]


def assert_resumed_as_unbroken(folder, between, **options):
    """Trains 6 steps, and the last 3 of them again from a copy of the run; returns the weights."""
    options |= {"tf_random_seed": 5, "save_checkpoints_steps": 3}
    whole = train(folder / "whole", between, 6, **options)
    resumed = train(copy_as_of(3, folder / "whole", folder / "resumed"), between, 6, **options)
    assert all(map(np.array_equal, whole, resumed))
    return whole


def ones():
    return layers.Lambda(tf.ones_like)


def masks(seen):
    return [tuple(np.ravel(batch)) for batch in seen]


class Branching(keras.Model):
    """Draws in a branch, in layers that it creates when it is first called, and in layers that draw as they like."""

    def __init__(self):
        super().__init__()
        self.attention = layers.MultiHeadAttention(2, 4, dropout=0.4)
        self.dropout = layers.Dropout(0.5)
        turns = layers.RandomFlip(), layers.RandomRotation(0.3)
        self.images = keras.Sequential([layers.Reshape([4, 4, 1]), layers.RandomCrop(3, 3), *turns])
        self.recurrent = layers.GRU(3, dropout=0.3)
        self.flat, self.head = layers.Flatten(), layers.Dense(1)

    def call(self, inputs, training=False):
        images = self.images(inputs, training=training)
        sequence = images[..., 0]
        features = self.flat(self.attention(sequence, sequence, training=training))
        if tf.reduce_sum(features) > 0:
            features = self.dropout(features, training=training)
        return self.head(tf.concat([features, self.recurrent(sequence, training=training)], axis=1))


def dropout_and_noise():
    dropout = layers.Dropout(0.5, seed=1), layers.GaussianDropout(0.3, seed=1), layers.Dropout(0.5)
    return [*dropout, layers.GaussianNoise(0.5), layers.AlphaDropout(0.2)]


SETTINGS = [{}, {"jit_compile": True, "steps_per_loop": 3}, {"recompute": True, "accumulate_steps": 2}]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_resumed_training_draws_the_numbers_of_an_unbroken_one(settings, tmp_path):
    assert_resumed_as_unbroken(tmp_path, dropout_and_noise, **settings)


@pytest.mark.slow
def test_layers_that_draw_in_branches_or_are_created_late_resume_too(tmp_path):
    assert len(assert_resumed_as_unbroken(tmp_path, Branching)) > 4


@pytest.mark.slow
def test_a_step_that_xla_compiles_draws_on_another_device_than_the_first(mirrored, tmp_path):
    mirrored(2)

    def dropped(name):
        """Trains one step on ones; the weights of inputs that are dropped stay zero."""
        keras.utils.set_random_seed(3)
        dense = layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        model = keras.Sequential([layers.Input([16]), layers.Dropout(0.5), dense])
        model.compile("sgd", "mse")
        strategy = tf.distribute.OneDeviceStrategy("CPU:1")
        config = et.RunConfig(tmp_path / name, train_distribute=strategy, jit_compile=True, tf_random_seed=5)
        estimator = et.model_to_estimator(model, config=config)
        estimator.train(lambda: tf.data.Dataset.from_tensors((tf.ones([1, 16]), tf.ones([1, 1]))))
        (kernel,) = [name for name in estimator.get_variable_names() if "kernel/" in name]
        return (estimator.get_variable_value(kernel) == 0).ravel().tolist()

    drawn = dropped("drawn")
    assert drawn == dropped("again") and 0 < sum(drawn) < 16


def test_each_step_and_each_replica_has_its_own_mask(mirrored, tmp_path):
    seen = []
    train(tmp_path, lambda: [ones(), layers.Dropout(0.5), Recording(seen)], 3, replicas=mirrored(2))
    assert len(seen) == 6 and len(set(masks(seen))) == 6
    assert 0.3 < np.mean(np.asarray(seen) == 0) < 0.7


@pytest.mark.slow
def test_a_layer_with_a_seed_draws_the_same_in_each_run_and_others_do_not(tmp_path, monkeypatch):
    runs = []
    for run_seed in (11, 12):
        free, fixed = [], []

        def between(free=free, fixed=fixed):
            return [ones(), layers.Dropout(0.5), Recording(free), ones(), layers.Dropout(0.5, seed=4), Recording(fixed)]

        monkeypatch.setattr(model_state, "draw_seed", lambda run_seed=run_seed: run_seed)
        train(tmp_path / str(run_seed), between, 2)
        runs.append((masks(free), masks(fixed)))
    (free, fixed), (other_free, other_fixed) = runs
    assert fixed == other_fixed and free != other_free and len(free) == len(fixed) == 2


@pytest.mark.slow
def test_dropout_inside_a_loop_draws_anew_in_each_iteration(tmp_path):
    seen = []

    class Loop(layers.Layer):
        def __init__(self):
            super().__init__()
            self.dropout, self.recording = layers.Dropout(0.5), Recording(seen)

        def call(self, inputs, training=None):
            def once(number, inputs):
                masked = self.recording(self.dropout(tf.ones_like(inputs), training=training), training=training)
                return number + 1, inputs + 0 * masked

            return tf.while_loop(lambda number, _: number < 3, once, [0, inputs])[1]

    train(tmp_path, lambda: [Loop()], 1)
    assert len(seen) == 3 and len(set(masks(seen))) == 3
