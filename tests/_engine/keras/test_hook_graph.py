"""Hooks restore, assign and read the variables of a Keras model in the hook graph."""

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from slow_cases import slow

import estimator_train as et

v1 = tf.compat.v1
DATA = np.random.default_rng(0).normal(size=(4, 3)).astype("float32"), np.ones((4, 1), "float32")


def estimator_of(folder, keras=tf_keras, rate=0.0, **config):
    keras.utils.set_random_seed(7)
    body = [
        keras.layers.Dense(2, name="hid"),
        keras.layers.BatchNormalization(momentum=1.0, name="norm"),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential([keras.Input((3,)), *body])
    model.compile(keras.optimizers.SGD(rate), "mse")
    return et.model_to_estimator(
        model, config=et.RunConfig(folder, save_summary_steps=None, checkpoint_save_graph_def=False, **config)
    )


def input_fn():
    return tf.data.Dataset.from_tensor_slices(DATA).batch(2).repeat(8)


def hook(**methods):
    """Returns a SessionRunHook with `methods`."""
    return type("Hook", (v1.train.SessionRunHook,), methods)()


def saved(estimator, *shape):
    """Returns the values of `shape` in the last checkpoint."""
    reader = tf.train.load_checkpoint(estimator.latest_checkpoint())
    names = [name for name, found in reader.get_variable_to_shape_map().items() if tuple(found) == shape]
    return [reader.get_tensor(name).tolist() for name in names]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A checkpoint with names of TensorFlow 1, which has fives for the first layer's kernel and ones for its mean."""
    path = str(tmp_path_factory.mktemp("source") / "model.ckpt")
    with tf.Graph().as_default(), v1.Session() as session:
        saved = [v1.get_variable("hid/kernel", initializer=[[5.0] * 2] * 3)]
        saved += [v1.get_variable("norm/moving_mean", initializer=[3.0] * 2)]
        session.run(v1.global_variables_initializer())
        return v1.train.Saver(saved).save(session, path)


def named(*names):
    return [variable for variable in v1.global_variables() if variable.op.name.endswith(names)]


def warm_start(source):
    def begin(self):
        v1.train.init_from_checkpoint(source, {name: named(name)[0] for name in ("hid/kernel", "norm/moving_mean")})

    return hook(begin=begin)


def restore(source):
    def begin(self):
        self.saver = v1.train.Saver({name: named(name)[0] for name in ("hid/kernel", "norm/moving_mean")})

    return hook(begin=begin, after_create_session=lambda self, session, coord: self.saver.restore(session, source))


def assign(source):
    def begin(self):
        kernel, mean = named("hid/kernel", "norm/moving_mean")
        self.ops = [kernel.assign(5 * tf.ones_like(kernel)), v1.assign(mean, [3.0] * 2)]

    return hook(begin=begin, after_create_session=lambda self, session, coord: session.run(self.ops))


FIVES, THREES = [[5.0] * 2] * 3, [3.0] * 2


@pytest.mark.parametrize(
    ("make", "keras"),
    [
        slow(warm_start, tf_keras),
        (warm_start, keras3),
        slow(restore, tf_keras),
        slow(restore, keras3),
        (assign, tf_keras),
        slow(assign, keras3),
    ],
)
def test_hooks_give_variables_values(make, keras, source, tmp_path):
    estimator = estimator_of(tmp_path, keras)
    estimator.train(input_fn, hooks=[make(source)], steps=1)
    assert FIVES in saved(estimator, 3, 2) and THREES in saved(estimator, 2)


@pytest.mark.slow
def test_values_count_on_every_replica_and_at_every_step(mirrored, tmp_path):
    def begin(self):
        (kernel,) = named("hid/kernel")
        self.seen, self.read, self.double = [], kernel.read_value(), kernel.assign(2.0 * kernel)
        self.norm = tf.reduce_max(kernel)

    def after_run(self, run_context, run_values):
        before = run_context.session.run(self.read)
        doubled = run_context.session.run(self.double)
        self.seen.append((before, doubled, run_values.results["norm"]))

    def before_run(self, run_context):
        return v1.train.SessionRunArgs({"norm": self.norm, "loss": "loss:0"})

    doubling = hook(begin=begin, before_run=before_run, after_run=after_run)
    estimator = estimator_of(tmp_path, train_distribute=mirrored(2))
    estimator.train(input_fn, hooks=[doubling], steps=3)
    for (_, doubled, _), (before, _, norm) in zip(doubling.seen, doubling.seen[1:], strict=False):
        np.testing.assert_array_equal(doubled, before)
        assert norm == np.max(before)
    assert doubling.seen[-1][1].tolist() in saved(estimator, 3, 2)


def test_summaries_show_the_trained_variables(tmp_path):
    shown = []

    def begin(self):
        (kernel,) = [variable for variable in v1.trainable_variables() if variable.op.name == "hid/kernel"]
        self.kernel, self.histogram = kernel, v1.summary.histogram("kernel", kernel)

    def after_run(self, run_context, run_values):
        kernel, histogram = run_context.session.run([self.kernel, self.histogram])
        summary = v1.Summary.FromString(histogram)
        shown.append((kernel, summary.value[0].histo.sum))

    estimator = estimator_of(tmp_path, rate=0.1)
    estimator.train(input_fn, hooks=[hook(begin=begin, after_run=after_run)], steps=2)
    for kernel, total in shown:
        assert total == pytest.approx(kernel.sum(), rel=1e-5)
    assert not np.array_equal(shown[0][0], shown[1][0]) and shown[1][0].tolist() in saved(estimator, 3, 2)


@pytest.mark.slow
def test_a_resumed_training_and_an_evaluation_keep_their_values(source, tmp_path):
    estimator = estimator_of(tmp_path, rate=0.1)
    estimator.train(input_fn, steps=1)
    plain = estimator.evaluate(input_fn)
    with_fives = estimator.evaluate(input_fn, hooks=[restore(source)])
    assert with_fives["loss"] != plain["loss"]
    assert estimator.evaluate(input_fn) == plain
    assert estimator.evaluate(input_fn, hooks=[warm_start(source)]) == plain  # initializers count without a checkpoint
    estimator.train(input_fn, hooks=[warm_start(source)], steps=1)
    assert FIVES not in saved(estimator, 3, 2)


def test_no_variables_are_created_for_hooks_that_ask_for_none(tmp_path):
    graphs = []
    watching = hook(after_create_session=lambda self, session, coord: graphs.append(session.graph))
    estimator = estimator_of(tmp_path)
    estimator.train(input_fn, hooks=[watching, v1.train.LoggingTensorHook(["loss"], 1)], steps=1)
    estimator.evaluate(input_fn, hooks=[watching])
    for graph in graphs:
        assert [variable.op.name for variable in graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)] == ["global_step"]
