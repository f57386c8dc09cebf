"""Estimator(model_fn): v1 graphs and sessions behind the common loop."""

import concurrent.futures
import contextlib
import gc
import json
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import Fetched, events

import estimator_train as et
from estimator_train._engine.session.private_tensorflow import global_step_read

v1 = tf.compat.v1


def linear(features, labels, mode, params):
    """prediction = w x; the loss is -prediction, so that w grows by rate * mean(x) a step."""
    x = features["x"]
    w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, predictions={"y": w * x})
    loss = -tf.reduce_mean(w * x)
    with tf.control_dependencies([loss]):  # else it may be read after the update
        train_op = v1.train.GradientDescentOptimizer(params["rate"]).minimize(loss, v1.train.get_global_step())
    return et.EstimatorSpec(
        mode,
        loss=loss,
        train_op=train_op,
        eval_metric_ops={"mean": v1.metrics.mean(x), "count": v1.metrics.mean(tf.ones_like(x), weights=x)},
    )


def numbers(count, batch_size=4, epochs=1):
    """An input_fn of 0, 1, ... count - 1 in order."""
    x = np.arange(count, dtype="float32")
    return lambda: tf.data.Dataset.from_tensor_slices(({"x": x}, x)).repeat(epochs).batch(batch_size)


@pytest.fixture
def make_estimator(tmp_path):
    def make(model_fn=linear, params=None, **config):
        quiet = {"save_summary_steps": None, "checkpoint_save_graph_def": False}
        config = et.RunConfig(tmp_path / "run", **(quiet | config))
        params = {"rate": 1.0} if params is None and model_fn is linear else params
        return et.Estimator(model_fn, config=config, params=params)

    return make


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An Estimator of `linear` after a step on numbers(4): w is 1.5."""
    return et.Estimator(linear, tmp_path_factory.mktemp("trained"), params={"rate": 1.0}).train(numbers(4), steps=1)


def mean_spec(mode, loss, **fields):
    """Returns a spec whose train_op only counts the step, if there was data for the loss."""
    with tf.control_dependencies([loss]):
        train_op = v1.assign_add(v1.train.get_global_step(), 1)
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, **fields)


# model_fn and its arguments


def test_model_fn_is_given_what_it_names(make_estimator):
    seen = {}

    def model_fn(features, mode, params, config):
        seen.update(features=features, mode=mode, params=params, config=config)
        return mean_spec(mode, tf.constant(0.0))

    estimator = make_estimator(model_fn, {"depth": 3}, tf_random_seed=5)
    estimator.train(lambda: tf.data.Dataset.from_tensors({"x": [1.0]}), steps=1)
    assert seen["features"]["x"].shape == [1]
    assert (seen["mode"], seen["params"], seen["config"].tf_random_seed) == ("train", {"depth": 3}, 5)
    assert seen["config"].model_dir == estimator.model_dir


def test_labels_for_a_model_fn_without_labels_are_an_error(make_estimator):
    estimator = make_estimator(lambda features, mode: mean_spec(mode, tf.constant(0.0)))
    with pytest.raises(ValueError, match="model_fn does not take labels, but input_fn returns labels"):
        estimator.train(numbers(4), steps=1)


def test_what_is_no_estimator_spec_is_an_error(make_estimator):
    with pytest.raises(ValueError, match="should return an EstimatorSpec"):
        make_estimator(lambda features, labels: {"loss": 0}).train(numbers(4), steps=1)


def test_the_public_model_fn_is_given_the_params(make_estimator):
    with tf.Graph().as_default():
        v1.train.create_global_step()
        spec = make_estimator().model_fn({"x": tf.constant([1.0])}, None, "infer", None)
    assert list(spec.predictions) == ["y"]


def test_subclasses_may_add_members_but_override_none():
    class Named(et.Estimator):
        def describe(self):
            return f"in {self.model_dir}"

    class Faster(et.Estimator):
        def train(self, input_fn):
            return self

    class Steps(et.Estimator):
        def _create_global_step(self, graph):
            return None

    with pytest.raises(ValueError, match="Steps does override .*_create_global_step"):
        Steps(linear, params={"rate": 1.0})
    assert Named(linear, "/a", params={"rate": 1.0}).describe() == "in /a"
    with pytest.raises(ValueError, match="Faster does override .*train"):
        Faster(linear, params={"rate": 1.0})


# train, evaluate, predict


@pytest.mark.smoke
def test_evaluation_reads_the_checkpoint_and_weighs_batches_alike(trained):
    results = trained.evaluate(numbers(10))
    assert results["mean"] == 4.5
    assert results["loss"] == pytest.approx(-1.5 * np.mean([1.5, 5.5, 8.5]))  # the last batch is a short one
    assert results["global_step"] == 1
    assert sorted(results) == ["count", "global_step", "loss", "mean"]


@pytest.mark.parametrize("keys", [[], "", ()])
def test_no_predict_keys_are_all(keys, trained):
    (first, *_) = trained.predict(numbers(4), predict_keys=keys)
    assert first.keys() == {"y"}


def test_predictions_without_a_checkpoint_are_announced(make_estimator, log_lines):
    next(make_estimator().predict(numbers(4)))
    assert any("running initialization to predict" in line for line in log_lines)


@pytest.mark.smoke
def test_predictions_come_one_by_one_with_the_trained_variables(trained):
    assert [example["y"] for example in trained.predict(numbers(6))] == [0, 1.5, 3, 4.5, 6, 7.5]


def test_predict_drops_the_labels(make_estimator):
    def model_fn(features, labels, mode):
        assert mode != et.ModeKeys.PREDICT or labels is None
        return mean_spec(mode, tf.reduce_mean(features["x"]), predictions=features["x"])

    assert list(make_estimator(model_fn).predict(numbers(3))) == [0, 1, 2]
    without = make_estimator(lambda features, mode: mean_spec(mode, tf.constant(0.0), predictions=features["x"]))
    assert list(without.predict(numbers(3))) == [0, 1, 2]


def test_predict_reads_a_batch_ahead_while_its_caller_works(trained):
    read = threading.Semaphore(0)

    def counted(x):
        read.release()
        return x

    def input_fn():
        x = tf.data.Dataset.range(40).map(lambda x: tf.numpy_function(counted, [tf.cast(x, tf.float32)], tf.float32))
        return x.map(lambda x: {"x": tf.ensure_shape(x, [])}).batch(4)

    with contextlib.closing(trained.predict(input_fn)) as predictions:
        assert [next(predictions)["y"] for _ in range(2)] == [0, 1.5]
        assert all(read.acquire(timeout=20) for _ in range(8))


def test_a_suspended_predict_generator_leaves_the_callers_mode_alone(trained):
    first, second = trained.predict(numbers(8)), trained.predict(numbers(8))
    values = []
    for _ in range(6):
        values.append((next(first)["y"], next(second)["y"]))
        assert tf.executing_eagerly()
        assert tf.constant(1).numpy() == 1
    assert values == [(1.5 * x, 1.5 * x) for x in range(6)]
    first.close()
    assert next(second)["y"] == 9


def test_training_does_not_wait_for_a_session_that_takes_long_to_close(make_estimator, monkeypatch):
    may_close, closed, close = threading.Event(), threading.Event(), v1.Session.close

    def close_late(session):
        may_close.wait(60)  # far longer than a training takes, on any machine
        close(session)
        closed.set()

    gc.collect()  # sessions of other tests, whose end would be taken for that of this one
    monkeypatch.setattr(v1.Session, "close", close_late)
    make_estimator().train(numbers(4), steps=1)
    assert not closed.is_set()
    may_close.set()
    assert closed.wait(60)


@pytest.mark.slow
def test_evaluations_in_threads_give_the_numbers_of_one_thread(make_estimator):
    estimator = make_estimator().train(numbers(8), steps=2)
    datasets = [numbers(10), numbers(24, batch_size=3)]
    expected = [estimator.evaluate(dataset) for dataset in datasets]
    assert expected[0] != expected[1]
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: estimator.evaluate(datasets[number % 2]), range(10)))
    assert found == expected * 5


def test_a_seed_makes_initial_values_repeatable(make_estimator, tmp_path):
    def random_start(features, labels, mode):
        v1.get_variable("w", [3], initializer=v1.random_uniform_initializer())
        return mean_spec(mode, tf.constant(0.0))

    values = []
    for name in ("a", "b"):
        estimator = et.Estimator(random_start, tmp_path / name, et.RunConfig(tf_random_seed=11))
        values.append(estimator.train(numbers(4), steps=1).get_variable_value("w"))
    np.testing.assert_array_equal(*values)


def test_nan_loss_ends_training(make_estimator):
    estimator = make_estimator(lambda features, labels, mode: mean_spec(mode, tf.constant(np.nan)))
    with pytest.raises(et.NanLossDuringTrainingError, match="NaN loss during training"):
        estimator.train(numbers(4), steps=1)


def test_after_an_error_in_a_step_no_hook_is_ended(make_estimator):
    class Ends(et.SessionRunHook):
        ended = False

        def end(self, session):
            self.ended = True

    def fails_at_2(features, labels, mode):
        with tf.control_dependencies([v1.assert_less(features["x"], 2.0)]):
            return mean_spec(mode, tf.reduce_mean(features["x"]))

    hook = Ends()
    with pytest.raises(tf.errors.InvalidArgumentError):
        make_estimator(fails_at_2).train(numbers(8, batch_size=1), hooks=[hook])
    assert not hook.ended
    make_estimator(fails_at_2).train(numbers(2, batch_size=1), hooks=[hook])
    assert hook.ended


def test_a_session_that_is_lost_is_made_anew_from_the_newest_checkpoint(make_estimator):
    class LosesOnce(et.SessionRunHook):
        sessions = lost = 0

        def after_create_session(self, session, coord):
            self.sessions += 1

        def after_run(self, run_context, run_values):
            if not self.lost and run_context.session.run(v1.train.get_global_step()) == 3:
                self.lost += 1
                raise tf.errors.AbortedError(None, None, "the worker is gone")

    hook = LosesOnce()
    estimator = make_estimator(save_checkpoints_steps=2)
    estimator.train(numbers(4, epochs=None), hooks=[hook], max_steps=5)
    assert hook.sessions == 2
    assert estimator.get_variable_value("global_step") == 5
    assert estimator.get_variable_value("w") == 5 * 1.5


@pytest.mark.slow
def test_no_graph_with_a_custom_gradient_outlives_its_run(tmp_path):
    graphs = weakref.WeakSet()

    def model_fn(features, mode):
        graphs.add(v1.get_default_graph())
        output = tf.nn.silu(v1.get_variable("weight", []) * features["x"])
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(output[0], v1.train.get_global_step())
        return et.EstimatorSpec(mode, {"y": output}, output[0], train_op)

    def input_fn():
        return tf.data.Dataset.from_tensors({"x": [1.0]})

    receiver_fn = et.export.build_raw_serving_input_receiver_fn({"x": tf.ones([1])})
    estimator = et.Estimator(model_fn, tmp_path / "run").train(input_fn)
    estimator.evaluate(input_fn)
    estimator.export_saved_model(tmp_path / "export", receiver_fn)
    assert list(estimator.predict(input_fn))
    with estimator.predictor() as predict:
        assert predict({"x": [1.0]})
    end = time.monotonic() + 30
    while graphs and time.monotonic() < end:
        gc.collect()  # a session that is slow to close holds its graph in a thread
    assert not list(graphs)


def test_an_empty_data_set_makes_no_step_and_no_evaluation(make_estimator, log_lines):
    estimator = make_estimator()
    estimator.train(numbers(0))
    assert any("made no step" in line for line in log_lines)
    assert estimator.get_variable_value("global_step") == 0
    with pytest.raises(ValueError, match="dataset is empty"):
        estimator.evaluate(numbers(0))


# inputs


def tensors():
    return {"x": tf.constant([1.0, 3.0])}, tf.constant([0.0, 0.0])


def arrays():
    return {"x": np.array([1.0, 3.0], "float32")}, np.array([0.0, 0.0], "float32")


def v1_iterator():
    dataset = tf.data.Dataset.from_tensors(tensors()).repeat(3)
    return v1.data.make_one_shot_iterator(dataset).get_next()


@pytest.mark.parametrize("input_fn", [tensors, arrays, v1_iterator])
def test_inputs_may_be_tensors_arrays_or_iterators(input_fn, make_estimator):
    estimator = make_estimator().train(input_fn, steps=3)
    assert estimator.get_variable_value("w") == 6


def test_queue_runners_are_started_and_stopped(make_estimator):
    def input_fn():
        x = v1.train.limit_epochs(tf.constant(2.0), num_epochs=6)
        batch = v1.train.batch([x], batch_size=2)
        return {"x": batch}, batch

    estimator = make_estimator().train(input_fn)
    assert estimator.get_variable_value("global_step") == 3


def test_arrays_are_one_batch_of_evaluation_and_prediction(make_estimator):
    estimator = make_estimator().train(arrays, steps=1)  # w is 2
    assert estimator.evaluate(arrays)["loss"] == -4
    assert [example["y"] for example in estimator.predict(arrays)] == [2, 6]


def test_tensors_make_predict_endless_which_is_warned_of(make_estimator, log_lines):
    predictions = make_estimator().predict(tensors)
    assert [next(predictions)["y"] for _ in range(5)] == [0] * 5
    predictions.close()
    assert any("predict yields forever" in line for line in log_lines)


def test_an_iterator_of_the_input_fn_ends_predict_without_a_warning(make_estimator, log_lines):
    def input_fn():
        return v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors({"x": [1.0, 3.0]})).get_next()

    assert [example["y"] for example in make_estimator().predict(input_fn)] == [0, 0]
    assert not any("predict yields forever" in line for line in log_lines)


def test_scalar_predictions_are_no_examples_which_predict_says(make_estimator):
    def model_fn(features, labels, mode):
        return mean_spec(mode, tf.constant(0.0), predictions={"y": tf.constant(7.0)})

    estimator = make_estimator(model_fn)
    with pytest.raises(ValueError, match=r"\['y'\] are scalars; .* or pass yield_single_examples=False"):
        next(estimator.predict(arrays))
    assert list(estimator.predict(arrays, yield_single_examples=False)) == [{"y": 7}]


@pytest.mark.parametrize("nothing", [({}, {}), (None, None)])
def test_a_model_may_need_no_input(nothing, make_estimator):
    estimator = make_estimator(lambda features, labels, mode: mean_spec(mode, tf.constant(1.0)))
    assert estimator.train(lambda: nothing, steps=2).get_variable_value("global_step") == 2


def test_a_tuple_that_is_no_pair_is_an_error(make_estimator):
    with pytest.raises(ValueError, match="len 2 tuple, got 3"):
        make_estimator().train(lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, 0.0, 1.0)), steps=1)


@pytest.mark.parametrize("change", [lambda dataset: dataset, lambda dataset: dataset.repeat()])
@pytest.mark.parametrize("replicas", [None, 2])
def test_a_dataset_made_outside_the_input_fn_is_an_error(replicas, change, make_estimator, mirrored):
    outside = tf.data.Dataset.from_tensors(({"x": [1.0]}, 0.0))
    with pytest.raises(ValueError, match="created outside of it: create each part of the input inside the input_fn"):
        make_estimator(train_distribute=mirrored(replicas)).train(lambda: change(outside), steps=1)


def test_tables_of_the_input_are_initialised(make_estimator):
    def input_fn():
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 3.0]), 0.0)
        return tf.data.Dataset.from_tensors(["a", "b"]).map(lambda words: ({"x": table.lookup(words)}, 0.0))

    assert make_estimator().train(input_fn, steps=1).get_variable_value("w") == 2


# strategies


@pytest.mark.parametrize(
    ("kind", "cross_device_ops"),
    [
        (v1.distribute.MirroredStrategy, None),
        pytest.param(
            *(tf.distribute.MirroredStrategy, tf.distribute.HierarchicalCopyAllReduce()), marks=pytest.mark.slow
        ),
    ],
)
def test_two_replicas_average_gradients_and_losses(kind, cross_device_ops, make_estimator, log_lines):
    strategy = kind(["CPU:0", "CPU:1"], cross_device_ops=cross_device_ops)
    estimator = make_estimator(train_distribute=strategy)
    estimator.train(numbers(16, batch_size=4))
    assert estimator.get_variable_value("w") == np.mean([1.5, 5.5]) + np.mean([9.5, 13.5])
    assert estimator.get_variable_value("global_step") == 2
    assert "Loss for final step: -40.25." in log_lines  # w is 3.5, x is 9.5 and 13.5


@pytest.mark.gpu(2)
def test_two_gpus_average_the_gradients_of_a_model_fn_by_nccl(gpus, make_estimator):
    estimator = make_estimator(train_distribute=gpus(2))
    estimator.train(numbers(16, batch_size=4), max_steps=1)
    assert estimator.get_variable_value("w") == np.mean([1.5, 5.5])


@pytest.mark.slow
def test_one_device_strategy_trains_as_none_does(make_estimator):
    estimator = make_estimator(train_distribute=tf.distribute.OneDeviceStrategy("CPU:1"))
    assert estimator.train(numbers(4), steps=1).get_variable_value("w") == 1.5


@pytest.mark.slow
def test_an_incomplete_group_of_batches_is_left_out_of_training(mirrored, make_estimator):
    estimator = make_estimator(train_distribute=mirrored(2))
    estimator.train(numbers(12, batch_size=4))
    assert estimator.get_variable_value("global_step") == 1
    assert estimator.train(numbers(2, batch_size=2)).get_variable_value("global_step") == 1


def test_replicas_have_static_batch_sizes_a_context_and_hooks_run_once(mirrored, make_estimator):
    begun, contexts = [], []

    class Counts(et.SessionRunHook):
        def begin(self):
            begun.append(self)

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(tf.reshape(features["x"], [features["x"].shape[0], 1]))
        return mean_spec(mode, loss, training_hooks=[Counts()])

    def input_fn(input_context):
        contexts.append((input_context.num_input_pipelines, input_context.num_replicas_in_sync))
        batch_size = input_context.get_per_replica_batch_size(8)
        return numbers(20)().unbatch().batch(batch_size, drop_remainder=True)

    estimator = make_estimator(model_fn, train_distribute=mirrored(2))
    assert estimator.train(input_fn).get_variable_value("global_step") == 2
    assert len(begun) == 1 and contexts == [(1, 2)]


@pytest.mark.slow
def test_padded_batches_are_evaluated_by_metrics_of_both_kinds(mirrored, make_estimator):
    def input_fn():
        lengths = tf.data.Dataset.range(1, 10)
        return lengths.map(lambda n: ({"x": tf.ones([n])}, 0.0)).padded_batch(4)

    def model_fn(features, labels, mode):
        lengths, of_keras = tf.reduce_sum(features["x"], axis=1), keras.metrics.Mean()
        of_keras.update_state(lengths)
        metrics = {"length": v1.metrics.mean(lengths), "of_keras": of_keras}
        return mean_spec(mode, tf.reduce_mean(features["x"]), eval_metric_ops=metrics)

    metrics = make_estimator(model_fn, eval_distribute=mirrored(2)).evaluate(input_fn)
    assert metrics["length"] == metrics["of_keras"] == 5


def test_an_entered_strategy_scope_alone_distributes_nothing(mirrored, make_estimator):
    estimator = make_estimator()
    with mirrored(2).scope():
        estimator.train(numbers(12))
        assert estimator.evaluate(numbers(12))["mean"] == 5.5
        assert len(list(estimator.predict(numbers(9)))) == 9
    assert estimator.get_variable_value("global_step") == 3


def test_arrays_are_an_input_of_replicas_and_tensors_are_not(mirrored, make_estimator):
    estimator = make_estimator(train_distribute=mirrored(2))
    assert estimator.train(arrays, steps=1).get_variable_value("w") == 2
    with pytest.raises(ValueError, match="must return a tf.data.Dataset under a distribution strategy"):
        estimator.train(tensors, steps=1)


@pytest.mark.slow
def test_batch_norm_statistics_are_the_mean_over_replicas(mirrored, make_estimator):
    def normalized(features, labels, mode):
        y = v1.layers.batch_normalization(features["x"][:, None], momentum=0.0, training=mode == "train")
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            return mean_spec(mode, tf.reduce_mean(y))

    estimator = make_estimator(normalized, train_distribute=mirrored(2)).train(numbers(8), steps=1)
    assert estimator.get_variable_value("batch_normalization/moving_mean") == pytest.approx(3.5)


def test_the_specs_checkpoint_saver_hook_replaces_ours_and_takes_listeners(make_estimator):
    saved = []

    class Listener(et.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            saved.append(int(global_step_value))

    def with_saver(features, labels, mode, config, params):
        saver = et.CheckpointSaverHook(config.model_dir, save_steps=2)
        return mean_spec(mode, tf.reduce_mean(features["x"]), **{params["field"]: [saver]})

    params = {"field": "training_hooks"}
    make_estimator(with_saver, params).train(numbers(12), saving_listeners=[Listener()])
    assert saved == [0, 2, 3]
    without, params = {"save_checkpoints_steps": None, "save_checkpoints_secs": None}, {"field": "training_chief_hooks"}
    make_estimator(with_saver, params, **without).train(numbers(12), saving_listeners=[Listener()])
    assert saved == [0, 2, 3, 3, 5, 6]


# the spec's parts


@pytest.mark.parametrize("name", ["loss", "global_step"])
def test_a_metric_with_a_name_of_the_results_is_an_error(name, make_estimator):
    def model_fn(features, labels, mode):
        return mean_spec(mode, tf.constant(0.0), eval_metric_ops={name: v1.metrics.mean(labels)})

    with pytest.raises(ValueError, match=f'Metric with name "{name}" is not allowed'):
        make_estimator(model_fn).evaluate(numbers(4))


def test_summaries_of_the_model_and_the_loss_are_written_in_training(make_estimator):
    def with_summary(features, labels, mode):
        v1.summary.scalar("largest", tf.reduce_max(features["x"]))
        return mean_spec(mode, tf.reduce_mean(features["x"]))

    estimator = make_estimator(with_summary, save_summary_steps=1).train(numbers(8), steps=2)
    written = set(events(estimator.model_dir))
    assert written >= {(1, "largest", 3.0), (2, "largest", 7.0), (1, "loss", 1.5), (2, "loss", 5.5)}


def test_the_loss_of_a_scope_called_loss_is_written_as_loss_1(make_estimator):
    def scoped(features, labels, mode):
        with tf.name_scope("loss"):
            return mean_spec(mode, tf.reduce_mean(features["x"]))

    estimator = make_estimator(scoped, save_summary_steps=1).train(numbers(4))
    assert [tag for _, tag, _ in events(estimator.model_dir)] == ["loss_1"]


@pytest.mark.parametrize(
    ("kind", "replicas"),
    [pytest.param("by the optimizer", 2, marks=pytest.mark.slow), ("assigned", None), ("in a branch", None)],
)
def test_hooks_fetch_the_global_step_from_before_the_update(kind, replicas, mirrored, make_estimator):
    """Summaries would be written a step too early."""

    def model_fn(features, labels, mode, params):
        spec, step = linear(features, labels, mode, params), v1.train.get_global_step()
        updates = {
            "by the optimizer": lambda: spec.train_op,
            "assigned": lambda: tf.group(v1.assign(step, step + 1)),
            "in a branch": lambda: tf.cond(spec.loss < 1e9, lambda: tf.group(v1.assign_add(step, 1)), tf.no_op),
        }
        return spec._replace(train_op=updates[kind]())

    hook = Fetched(lambda: [global_step_read(), v1.train.get_global_step()])
    estimator = make_estimator(model_fn, {"rate": 1.0}, train_distribute=mirrored(replicas))
    estimator.train(numbers(4, epochs=None), hooks=[hook], steps=50)
    assert hook.values == [[step, step] for step in range(50)]


def test_hooks_find_the_loss_in_its_collection(make_estimator):
    hook = Fetched(lambda: v1.get_collection(v1.GraphKeys.LOSSES)[0])
    make_estimator().train(numbers(8), hooks=[hook])
    assert hook.values[-1] == -1.5 * 5.5


def test_metrics_may_be_vectors_and_serialized_summaries(make_estimator, log_lines):
    def model_fn(features, labels, mode):
        image = v1.summary.image("scan", tf.zeros([1, 2, 2, 1]))
        metrics = {
            "sums": v1.metrics.mean_tensor(tf.ensure_shape(features["x"], [4])),
            "picture": (image, tf.no_op()),
            "words": (tf.constant("no summary"), tf.no_op()),
        }
        return et.EstimatorSpec(mode, loss=tf.constant(0.0), eval_metric_ops=metrics)

    estimator = make_estimator(model_fn)
    results = estimator.evaluate(numbers(8))
    np.testing.assert_array_equal(results["sums"], [2, 3, 4, 5])
    tags = {tag for _, tag, _ in events(estimator.eval_dir())}
    assert {"sums", "picture/0"} <= tags
    assert any("words" in line and "skipping it" in line for line in log_lines)


def test_a_scaffold_has_its_say(make_estimator):
    def with_scaffold(features, labels, mode):
        v = v1.get_variable("v", [], initializer=v1.zeros_initializer())
        local = v1.get_variable("local", [], collections=["mine"], initializer=v1.zeros_initializer())
        seven = v1.placeholder(tf.float32, [])
        assign = v.assign(seven)
        scaffold = v1.train.Scaffold(
            init_fn=lambda scaffold, session: session.run(assign, {seven: 7.0}),
            local_init_op=tf.group(v1.train.Scaffold.default_local_init_op(), local.assign(5.0)),
            summary_op=v1.summary.scalar("only", v + local),
        )
        return mean_spec(mode, v + local, scaffold=scaffold)

    estimator = make_estimator(with_scaffold, save_summary_steps=1).train(numbers(4), steps=1)
    assert estimator.get_variable_value("v") == 7
    assert {tag for _, tag, _ in events(estimator.model_dir) if tag != "global_step/sec"} == {"only"}
    estimator.train(numbers(4), steps=1)  # and the second session restores v, and sets local again
    assert (2, "only", 12.0) in events(estimator.model_dir)


def test_a_local_init_op_of_ones_own_leaves_metrics_to_us(make_estimator):
    def model_fn(features, labels, mode):
        metric = keras.metrics.Mean()
        metric.update_state(features["x"])
        scaffold = v1.train.Scaffold(local_init_op=tf.group(v1.local_variables_initializer(), v1.tables_initializer()))
        return mean_spec(mode, tf.reduce_mean(features["x"]), eval_metric_ops={"mean": metric}, scaffold=scaffold)

    assert make_estimator(model_fn).evaluate(numbers(4)) == {"mean": 1.5, "loss": 1.5, "global_step": 0}


def test_a_saver_of_some_variables_leaves_others_their_shape(make_estimator):
    def model_fn(features, labels, mode, params):
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        last = v1.get_variable("last", [params["classes"]], initializer=v1.zeros_initializer())
        scaffold = None
        if mode == et.ModeKeys.PREDICT:
            ready = tf.constant([], tf.string)
            scaffold = v1.train.Scaffold(None, None, None, ready, ready, last.initializer, saver=v1.train.Saver([w]))
        return mean_spec(mode, tf.constant(0.0), predictions=w + 0 * features["x"], scaffold=scaffold)

    make_estimator(model_fn, {"classes": 2}).train(numbers(4), steps=1)
    assert list(make_estimator(model_fn, {"classes": 3}).predict(numbers(2))) == [0, 0]


def test_a_model_fn_with_a_saver_of_its_own_trains_again(make_estimator, tmp_path):
    def model_fn(features, labels, mode):
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        train_op = v1.train.GradientDescentOptimizer(1.0).minimize(-w, v1.train.get_global_step())
        v1.train.init_from_checkpoint(str(tmp_path / "first"), {"/": "/"})
        return et.EstimatorSpec(
            mode, loss=w + 0.0, train_op=train_op, scaffold=v1.train.Scaffold(saver=v1.train.Saver())
        )

    et.Estimator(linear, tmp_path / "first", params={"rate": 0.0}).train(numbers(4), steps=1)
    estimator = make_estimator(model_fn).train(numbers(4), steps=1).train(numbers(4), steps=1)
    assert estimator.get_variable_value("global_step") == 3


def test_an_evaluation_feeds_the_local_init_op(make_estimator):
    def model_fn(features, labels, mode):
        fed = v1.placeholder(tf.float32, [2])
        table = v1.get_local_variable("table", [2], initializer=v1.zeros_initializer())
        scaffold = v1.train.Scaffold(local_init_op=table.assign(fed), local_init_feed_dict={fed: [1.0, 2.0]})
        return mean_spec(mode, tf.reduce_sum(table) + 0 * tf.reduce_sum(features["x"]), scaffold=scaffold)

    assert make_estimator(model_fn).evaluate(numbers(4))["loss"] == 3


def test_a_local_init_op_of_ones_own_on_replicas_warns_of_nothing(make_estimator, mirrored, log_lines):
    def model_fn(features, labels, mode):
        scaffold = v1.train.Scaffold(local_init_op=v1.local_variables_initializer())
        return mean_spec(mode, tf.reduce_mean(features["x"]), scaffold=scaffold)

    assert make_estimator(model_fn, eval_distribute=mirrored(2)).evaluate(numbers(8))["loss"] == 3.5
    assert not any("combine_scaffolds" in line for line in log_lines)


def test_replicas_feed_their_init_ops_and_pass_on_the_scaffold(make_estimator, mirrored):
    given = []

    def model_fn(features, labels, mode):
        fed = v1.placeholder(tf.float32, [])
        loss = tf.reduce_mean(features["x"])
        scaffold = v1.train.Scaffold(
            init_op=tf.group(v1.global_variables_initializer(), tf.debugging.assert_equal(fed, 1.0)),
            init_feed_dict={fed: 1.0},
            init_fn=lambda scaffold, session: given.append(scaffold.saver),
        )
        return mean_spec(mode, loss, scaffold=scaffold)

    make_estimator(model_fn, train_distribute=mirrored(2)).train(numbers(8), steps=1)
    (saver,) = given
    assert isinstance(saver, v1.train.Saver)


def test_hooks_and_listeners_may_come_from_iterators(make_estimator):
    calls = []

    class Hook(et.SessionRunHook):
        def begin(self):
            calls.append("hook")

    class Listener(et.CheckpointSaverListener):
        def after_save(self, session, step):
            calls.append(f"saved {step}")

    def model_fn(features, labels, mode):
        return mean_spec(mode, tf.reduce_mean(features["x"]), training_hooks=(Hook() for _ in range(2)))

    hooks, listeners = iter([Hook()]), iter([Listener()])
    make_estimator(model_fn).train(numbers(4), hooks=hooks, saving_listeners=listeners)
    assert sorted(calls) == ["hook", "hook", "hook", "saved 0", "saved 1"]


def test_a_checkpoint_object_may_be_the_saver(make_estimator):
    def object_based(features, labels, mode):
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        step = v1.train.get_global_step()
        train_op = tf.group(w.assign_add(2.0), step.assign_add(1))
        saver = tf.train.Checkpoint(weight=w, global_step=step)
        return et.EstimatorSpec(mode, loss=w, train_op=train_op, scaffold=v1.train.Scaffold(saver=saver))

    estimator = make_estimator(object_based).train(numbers(4, epochs=None), steps=2)
    assert "weight/.ATTRIBUTES/VARIABLE_VALUE" in estimator.get_variable_names()
    estimator.train(numbers(4, epochs=None), steps=1)
    assert estimator.get_variable_value("weight/.ATTRIBUTES/VARIABLE_VALUE") == 6
    assert estimator.evaluate(numbers(4), steps=1)["global_step"] == 3


# files


def test_the_checkpoint_file_says_which_checkpoint_is_the_newest(make_estimator, tmp_path):
    estimator = make_estimator(save_checkpoints_steps=1).train(numbers(4, epochs=None), steps=3)
    v1.train.update_checkpoint_state(str(tmp_path / "run"), "model.ckpt-2", ["model.ckpt-2", "model.ckpt-3"])
    assert estimator.latest_checkpoint().endswith("model.ckpt-2")  # rolled back by hand
    (tmp_path / "run" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"\n')
    assert estimator.latest_checkpoint().endswith("model.ckpt-1")


def test_an_iterators_state_may_be_saved_too(make_estimator):
    def input_fn():
        iterator = v1.data.make_initializable_iterator(numbers(12)())
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, saveable)
        return iterator.get_next()

    estimator = make_estimator().train(input_fn, steps=1)
    assert estimator.latest_checkpoint().endswith("-1")


def test_the_graph_is_written_unless_it_is_not_wanted(trained, tmp_path):
    assert {"graph.pbtxt", "model.ckpt-1.meta", "checkpoint"} <= set(os.listdir(trained.model_dir))
    config = et.RunConfig(tmp_path / "other", checkpoint_save_graph_def=False)
    et.Estimator(linear, config=config, params={"rate": 1.0}).train(numbers(4), steps=1)
    assert not {"graph.pbtxt", "model.ckpt-1.meta"} & set(os.listdir(tmp_path / "other"))


@pytest.mark.slow
def test_old_checkpoints_are_deleted_over_several_runs(make_estimator):
    estimator = make_estimator(keep_checkpoint_max=2)
    for _ in range(4):
        estimator.train(numbers(4), steps=1)
    state = tf.train.get_checkpoint_state(estimator.model_dir)
    assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == ["model.ckpt-3", "model.ckpt-4"]
    assert not tf.io.gfile.exists(os.path.join(estimator.model_dir, "model.ckpt-2.index"))
    assert "/" not in tf.io.gfile.GFile(os.path.join(estimator.model_dir, "checkpoint")).read()  # relative paths


@pytest.mark.slow
def test_a_damaged_newest_checkpoint_is_passed_over(make_estimator, tmp_path):
    estimator = make_estimator(save_checkpoints_steps=1).train(numbers(4, epochs=None), steps=3)
    (tmp_path / "run" / "model.ckpt-3.data-00000-of-00001").write_bytes(b"")
    assert estimator.evaluate(numbers(4))["global_step"] == 2
    estimator.train(numbers(4, epochs=None), max_steps=4)
    assert estimator.get_variable_value("w") == 4 * 1.5


def test_partitioned_variables_and_their_slots_are_saved_and_restored(make_estimator):
    def partitioned(features, labels, mode):
        with v1.variable_scope("rows", partitioner=v1.fixed_size_partitioner(2)):
            rows = tf.convert_to_tensor(v1.get_variable("w", [4, 1], initializer=v1.ones_initializer()))
        loss = tf.reduce_sum(rows) * tf.reduce_mean(features["x"])
        train_op = v1.train.AdagradOptimizer(1.0).minimize(loss, v1.train.get_global_step())
        return et.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = make_estimator(partitioned).train(numbers(4), steps=1)
    assert estimator.train(numbers(4), steps=1).get_variable_value("rows/w").shape == (4, 1)
    assert estimator.get_variable_value("global_step") == 2


def test_a_checkpoint_of_another_shape_is_an_error_that_names_it(make_estimator):
    make_estimator().train(numbers(4), steps=1)

    def wider(features, labels, mode):
        v1.get_variable("w", [2])
        return mean_spec(mode, tf.constant(0.0))

    with pytest.raises(ValueError, match=r"w is \(\) in the checkpoint and \(2,\) in the model"):
        make_estimator(wider).train(numbers(4), steps=1)


def test_device_fn_and_session_config_reach_graph_and_session(make_estimator):
    seen = []

    class Looks(et.SessionRunHook):
        def after_create_session(self, session, coord):
            seen.append({op.device for op in session.graph.get_operations() if op.type == "Neg"})
            seen.append(session._config.log_device_placement)

    estimator = make_estimator(
        device_fn=lambda op: "/cpu:1",
        session_config=v1.ConfigProto(log_device_placement=True, allow_soft_placement=True),
    )
    estimator.train(numbers(4), hooks=[Looks()], steps=1)
    assert seen == [{"/cpu:1"}, True]


# export


def receiver():
    x = v1.placeholder(tf.float32, [None], name="x")
    return et.export.ServingInputReceiver({"x": x}, {"x": x})


def test_a_variable_or_checkpoint_that_is_missing_is_a_value_error(make_estimator, tmp_path):
    def grows(features, labels, mode, params):
        if mode == et.ModeKeys.PREDICT:
            v1.get_variable("new", [])
        return linear(features, labels, mode, params)

    estimator = make_estimator(grows, {"rate": 1.0}).train(numbers(4))
    with pytest.raises(ValueError, match="not load all requested variables .* in mode 'infer': Key new not"):
        estimator.export_saved_model(tmp_path / "export", receiver)
    with pytest.raises(ValueError, match="not a valid checkpoint: model.ckpt-7"):
        estimator.evaluate(numbers(4), checkpoint_path="model.ckpt-7")


@pytest.mark.slow
def test_a_process_with_tensorflow_alone_can_serve_an_export(trained, tmp_path):
    folder = trained.export_saved_model(str(tmp_path / "export"), receiver)
    serve = (
        "import sys, tensorflow as tf\n"
        "serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "print(serve(x=tf.constant([2.0, 4.0]))['y'].numpy().tolist())\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    command = [sys.executable, "-c", serve, folder.decode()]
    assert json.loads(subprocess.run(command, capture_output=True, env=environment, check=True).stdout) == [3, 6]


@pytest.mark.slow
def test_all_modes_are_exported_together(trained, tmp_path):
    supervised = et.experimental.build_raw_supervised_input_receiver_fn(
        {"x": tf.zeros([1])}, tf.zeros([1]), default_batch_size=None
    )
    receivers = {"train": supervised, "eval": supervised, "infer": receiver}
    folder = trained.experimental_export_all_saved_models(tmp_path / "export", receivers)
    with v1.Session(graph=tf.Graph()) as session:
        meta = v1.saved_model.load(session, ["eval"], folder.decode())
        outputs = meta.signature_def["eval"].outputs
        assert session.run(outputs["loss"].name, {meta.signature_def["eval"].inputs["x"].name: [2.0, 4.0]}) == -4.5
        assert {"loss", "metrics/mean/value", "metrics/mean/update_op"} <= set(outputs)
    for tag in ("train", "serve"):
        with v1.Session(graph=tf.Graph()) as session:
            meta = v1.saved_model.load(session, [tag], folder.decode())
            assert session.run("w/Read/ReadVariableOp:0") == 1.5
            train_ops = v1.get_collection("saved_model_train_op")
            assert len(train_ops) == (tag == "train")
            if train_ops:
                x, label = (meta.signature_def[tag].inputs[name].name for name in ("x", "label"))
                session.run(train_ops, {x: [2.0, 4.0], label: [0.0]})
                assert session.run("w/Read/ReadVariableOp:0") != 1.5


def test_an_export_that_fails_leaves_nothing(make_estimator, tmp_path):
    estimator = make_estimator()
    with pytest.raises(ValueError, match="Couldn't find trained model at"):
        estimator.export_saved_model(tmp_path / "export", receiver)
    with pytest.raises(ValueError, match=r"No valid modes for exporting: \['predict'\]"):
        estimator.export_saved_model(tmp_path / "export", receiver, experimental_mode="predict")
    with pytest.raises(ValueError, match="input_receiver_fn must be defined"):
        estimator.export_saved_model(tmp_path / "export", None)
    estimator.train(numbers(4), steps=1)
    with pytest.raises(ZeroDivisionError):
        estimator.export_saved_model(tmp_path / "export", lambda: 1 / 0)
    with pytest.raises(tf.errors.NotFoundError):
        estimator.export_saved_model(tmp_path / "export", receiver, assets_extra={"a": str(tmp_path / "missing")})
    assert not (tmp_path / "export").exists() or os.listdir(tmp_path / "export") == []
