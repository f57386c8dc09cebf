"""Steps of a model_fn in calls of many: they give what single steps give, to the bit, or are not made."""

import logging
import re
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
import warm_python
from slow_cases import slow

import estimator_train as et
from estimator_train._engine.graph import loopable, looped_steps, session
from estimator_train.canned import v1 as canned_v1
from estimator_train.compat.drop_in import tpu

v1 = tf.compat.v1
feature_column = tf.feature_column
STEPS = 43


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """The number of steps in each call, also of steps that take long on a busy machine."""
    counts = []
    count_into(counts, monkeypatch.setattr)
    return counts


def count_into(counts, set_attribute):
    took = looped_steps.LoopedSteps._took

    def noting(self, steps, seconds):
        counts.append(steps)
        took(self, steps, 0.0005 * steps)

    set_attribute(looped_steps.LoopedSteps, "_took", noting)
    set_attribute(looped_steps, "_LOOP_SECONDS", 0)
    set_attribute(looped_steps, "_FEW_STEPS", 0)


def input_fn(examples=None, seed=3):
    random = np.random.default_rng(seed)
    x = random.normal(size=[96, 4]).astype(np.float32)
    words = np.array(["a", "b", "c", "d"])[random.integers(4, size=96)]
    features = {"x": x, "word": words, "id": random.integers(7, size=96)}
    dataset = tf.data.Dataset.from_tensor_slices((features, (x.sum(1) > 0).astype(np.float32)))
    dataset = dataset.shuffle(96, seed=1).repeat()
    return (dataset if examples is None else dataset.take(examples)).batch(8)


def dense(x, units, name):
    weights = v1.get_variable(f"{name}/w", [x.shape[-1], units])
    return x @ weights + v1.get_variable(f"{name}/b", [units], initializer=v1.zeros_initializer())


def spec_of(mode, logits, labels, optimizer=None, more=(), **others):
    logits = logits[:, 0]
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    v1.summary.histogram("logits", logits)
    tf.identity(loss, "shown")
    optimizer = optimizer or v1.train.AdamOptimizer(0.05)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    metrics = {
        "accuracy": v1.metrics.accuracy(labels, tf.cast(logits > 0, tf.float32)),
        "auc": v1.metrics.auc(labels, tf.sigmoid(logits)),
        "mean": v1.metrics.mean(logits),
    }
    train_op = tf.group(train_op, *more)
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics, **others)


def plain(features, labels, mode):
    return spec_of(mode, dense(tf.nn.relu(dense(features["x"], 5, "a")), 1, "b"), labels)


def draws(features, labels, mode):
    net = features["x"] + v1.random_uniform([4]) + v1.random_normal([4], seed=2) * v1.truncated_normal([4])
    net = tf.nn.dropout(dense(v1.random_shuffle(net), 6, "a"), 0.3)
    net += tf.cast(v1.multinomial([[1.0, 2.0, 3.0]], 1), tf.float32) * v1.random_gamma([1], 2.0)
    weights = v1.get_variable("out", [9, 6])
    ids = tf.cast(features["id"], tf.int64)[:, None]
    sampled = tf.nn.sampled_softmax_loss(weights, tf.zeros([9]), ids, net, 3, 9)
    return spec_of(mode, dense(net, 1, "b") + sampled[:, None], labels)


def keras_layers(features, labels, mode):
    training = mode == "train"
    model = tf_keras.Sequential(
        [tf_keras.layers.Dense(6, "relu"), tf_keras.layers.BatchNormalization(), tf_keras.layers.Dropout(0.4)]
        + [tf_keras.layers.Dense(1)]
    )
    logits = model(features["x"], training=training)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels[:, None], logits=logits))
    optimizer = tf_keras.optimizers.legacy.Adam(0.05)
    optimizer.iterations = v1.train.get_global_step()
    (train_op,) = optimizer.get_updates(loss, model.trainable_variables)
    accuracy = tf_keras.metrics.BinaryAccuracy()
    accuracy.update_state(labels[:, None], logits)
    train_op = tf.group(train_op, *model.updates)
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy})


def tables(features, labels, mode):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [0, 1]), 2)
    seen = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
    counted = seen.lookup(features["word"])
    insert = seen.insert(features["word"], counted + 1)
    embedded = tf.nn.embedding_lookup(v1.get_variable("embeddings", [3, 4]), table.lookup(features["word"]))
    more = tf.cast(counted, tf.float32)[:, None] * 0.01
    return spec_of(mode, dense(features["x"] + embedded + more, 1, "b"), labels, more=[insert])


def python(features, labels, mode):
    def negative(x):
        return -x

    x = tf.ensure_shape(tf.numpy_function(negative, [features["x"]], tf.float32), [None, 4])
    net = dense(x, 4, "a")
    net = tf.ensure_shape(tf.py_function(lambda x: x * 2, [net], tf.float32), [None, 4])
    return spec_of(mode, dense(net, 1, "b"), labels)


def control_flow(features, labels, mode):
    net = dense(features["x"], 4, "a")
    net = tf.cond(tf.reduce_sum(net) > 0, lambda: net * 2, lambda: dense(net, 4, "c"))
    _, net = tf.while_loop(lambda i, _: i < 3, lambda i, net: (i + 1, tf.tanh(dense(net, 4, "d"))), (0, net))
    net = tf.function(lambda x: tf.nn.relu(x) + 1)(net)
    net = tf.map_fn(lambda row: row * 2, net)
    v1.Print(net, [tf.shape(net)])
    with tf.control_dependencies([v1.assert_less(net, 1e6)]):
        net = tf.identity(net)
    return spec_of(mode, dense(net, 1, "b"), labels)


def old_cond(features, labels, mode):
    v1.disable_control_flow_v2()
    try:
        net = dense(features["x"], 4, "a")
        net = tf.cond(tf.reduce_sum(net) > 0, lambda: net * 2, lambda: dense(net, 4, "c"))
        return spec_of(mode, dense(net, 1, "b"), labels)
    finally:
        v1.enable_control_flow_v2()


def old_while(features, labels, mode):
    v1.disable_control_flow_v2()
    try:
        _, net = tf.while_loop(lambda i, _: i < 3, lambda i, net: (i + 1, net * 0.5), (0, features["x"]))
        return spec_of(mode, dense(net, 1, "b"), labels)
    finally:
        v1.enable_control_flow_v2()


def scaffold(features, labels, mode):
    count = v1.get_local_variable("count", [], tf.int64, v1.ones_initializer(), use_resource=True)
    bias = v1.get_variable("bias", [4])
    assign = bias.assign(tf.ones([4]) * 3)
    own = v1.train.Scaffold(init_fn=lambda scaffold, session: session.run(assign))
    net = features["x"] + bias + tf.cast(count, tf.float32)
    with v1.device("/cpu:0"), tf.control_dependencies([net]):
        counted = count.assign_add(2)
    return spec_of(mode, dense(net, 1, "b"), labels, more=[counted], scaffold=own)


def references(features, labels, mode):
    bias = v1.get_variable("bias", [4], use_resource=False)
    return spec_of(mode, dense(features["x"] + bias, 1, "b"), labels)


def unordered(features, labels, mode):
    count = v1.get_variable("count", [], trainable=False)
    return spec_of(mode, dense(features["x"] + count, 1, "b"), labels, more=[count.assign_add(1)])


def accumulated(features, labels, mode):
    logits = dense(features["x"], 1, "b")
    total, count = v1.get_variable("total", [4, 1]), v1.get_variable("batches", [], tf.int64, trainable=False)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels[:, None], logits=logits))
    weights = v1.trainable_variables()[0]
    (gradient,) = tf.gradients(loss, [weights])
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    step = v1.train.get_global_step()
    with tf.control_dependencies([total.assign_add(gradient)]):
        due = tf.equal(count.assign_add(1) % 3, 0)

    def apply():
        with tf.control_dependencies([optimizer.apply_gradients([(total.read_value(), weights)])]):
            cleared = total.assign(tf.zeros([4, 1]))
        with tf.control_dependencies([cleared]):
            return tf.constant(True)

    with tf.control_dependencies([due]):
        counted = step.assign_add(1)
    train_op = tf.group(tf.cond(due, apply, lambda: tf.constant(False)), counted)
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op)


def draws_in_a_branch(features, labels, mode):
    net = tf.cond(labels[0] > 0, lambda: v1.random_uniform([4]), lambda: tf.zeros([4]))
    return spec_of(mode, dense(features["x"] + net, 1, "b"), labels)


def two_optimizers(features, labels, mode):
    other = v1.get_variable("other", [4])
    loss = tf.reduce_sum((features["x"] - other) ** 2)
    train_op = v1.train.RMSPropOptimizer(0.1).minimize(loss, var_list=[other])
    return spec_of(mode, dense(features["x"], 1, "b"), labels, v1.train.FtrlOptimizer(0.1), [train_op])


def columns():
    word = feature_column.categorical_column_with_vocabulary_list("word", ["a", "b", "c"], num_oov_buckets=1)
    number = feature_column.categorical_column_with_identity("id", 7)
    wide = [word, number, feature_column.crossed_column(["word", number], 20)]
    deep = [feature_column.numeric_column("x", [4]), feature_column.embedding_column(word, 3)]
    return wide, deep


def dnn(**common):
    return et.DNNClassifier([6, 4], columns()[1], dropout=0.3, batch_norm=True, **common)


def linear(**common):
    return et.LinearClassifier(columns()[0], **common)


def wide_and_deep(**common):
    wide, deep = columns()
    return et.DNNLinearCombinedClassifier(
        linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[5], **common
    )


def dnn_v1(**common):
    return canned_v1.DNNClassifier([6, 4], columns()[1], dropout=0.3, **common)


def wide_and_deep_v1(**common):
    wide, deep = columns()
    return canned_v1.DNNLinearCombinedRegressor(
        linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[5], **common
    )


def baseline(**common):
    return et.BaselineClassifier(**common)


def tpu_estimator(config):
    def model_fn(features, labels, mode, params):
        spec = plain(features, labels, mode)
        eval_metrics = lambda loss: {"loss again": v1.metrics.mean(loss)}, [spec.loss]  # noqa: E731
        return tpu.TPUEstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op, eval_metrics=eval_metrics)

    return tpu.TPUEstimator(model_fn, config=config, use_tpu=False, train_batch_size=8)


def estimator_of(make, directory, **settings):
    tf_keras.utils.set_random_seed(1)
    given: dict = {
        "tf_random_seed": 5,
        "log_step_count_steps": 7,
        "save_summary_steps": 9,
        "save_checkpoints_steps": 20,
    }
    if make is tpu_estimator:
        tpu_config = tpu.TPUConfig(iterations_per_loop=1000)
        return make(tpu.RunConfig(tpu_config, model_dir=directory, **given | settings))
    config = et.RunConfig(directory, **given | settings)
    if make in (dnn, linear, wide_and_deep, dnn_v1, wide_and_deep_v1, baseline):
        return make(config=config)
    return et.Estimator(make, config=config)


def events(directory):
    """Returns all that the event files of a run hold, without graphs and times."""
    found = []
    for path in sorted(directory.rglob("*.tfevents.*")):
        for event in v1.train.summary_iterator(str(path)):
            # The weights of linear models are read again for their summary, before or after the step's update.
            drawn = [value for value in event.summary.value if "fraction_of_zero_weights" not in value.tag]
            values = [value for value in drawn if "sec" not in value.tag]
            if values and not any(value.tag == "checkpoint_path" for value in values):
                found.append((event.step, [value.SerializeToString(deterministic=True) for value in values]))
            found += [(event.step, value.tag) for value in drawn if "sec" in value.tag]
            found += [(event.step, event.session_log.status)] * event.HasField("session_log")
    return found


def variables(estimator):
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def lines(log_lines):
    left_out = ("global_step/sec", "examples/sec", "Inference Time", "Using config", "The graph", "From ")
    kept = [line for line in log_lines if not line.startswith(left_out)]
    return [re.sub(r" \([\d.]+ sec\)|at \S+|/\S+", "", line) for line in kept]


def observed(make, directory, log_lines, hooks=lambda: (), **settings):
    """Trains twice, the second time on from a checkpoint, to the end of its data, and evaluates."""
    log_lines.clear()
    estimator = estimator_of(make, directory, **settings)
    estimator.train(given_params(input_fn), hooks(), max_steps=STEPS // 2)
    estimator.train(given_params(input_fn, 8 * (STEPS - STEPS // 2)), hooks())
    metrics = estimator.evaluate(given_params(input_fn, 8 * 17))
    metrics |= estimator.evaluate(input_fn, steps=25, name="some")
    return left_by(estimator, metrics, log_lines)


def given_params(input_fn, *arguments):
    """Returns an input_fn that takes `params`, as a TPUEstimator demands."""
    return lambda params: input_fn(*arguments)


def left_by(estimator, metrics, log_lines):
    left = {"variables": variables(estimator), "metrics": metrics, "events": events(Path(estimator.model_dir))}
    return left | {"lines": lines(log_lines)}


def assert_same(one, other):
    assert one["lines"] == other["lines"]
    assert one["events"] == other["events"]
    for part in ("variables", "metrics"):
        assert one[part].keys() == other[part].keys()
        for name, value in one[part].items():
            np.testing.assert_array_equal(other[part][name], value, name)
    assert other["variables"]["global_step"] == STEPS


LOOPED = [draws, *map(slow, (plain, keras_layers, tables, python, control_flow, old_cond, scaffold, two_optimizers))]
LOOPED += map(slow, (accumulated, dnn, linear, wide_and_deep, dnn_v1, wide_and_deep_v1, baseline, tpu_estimator))
SINGLE = [
    (references, "uses a reference variable"),
    slow(unordered, "ReadVariableOp and AssignAddVariableOp use count"),
    slow(old_while, "while/"),
    slow(draws_in_a_branch, "a RandomUniform in a function, may keep a state of its own"),
]


@pytest.mark.parametrize("make", LOOPED)
def test_many_steps_in_a_call_give_what_single_steps_give(make, log_lines, calls, tmp_path):
    single = observed(make, tmp_path / "single", log_lines, steps_per_loop=1)
    assert not calls
    assert_same(single, observed(make, tmp_path / "looped", log_lines))
    assert max(calls) > 4 and calls.count(1) < STEPS // 2


@pytest.mark.slow
@pytest.mark.parametrize("make", [plain, dnn_v1])
def test_train_and_evaluate_makes_many_steps_in_a_call(make, log_lines, calls, tmp_path):
    sides = []
    for at_once in (1, "auto"):
        log_lines.clear()
        estimator = estimator_of(make, tmp_path / str(at_once), steps_per_loop=at_once)
        eval_spec = et.EvalSpec(lambda: input_fn(8 * 17), steps=None, throttle_secs=0)
        metrics, _ = et.train_and_evaluate(estimator, et.TrainSpec(input_fn, max_steps=STEPS), eval_spec)
        assert bool(calls) == (at_once == "auto")
        sides.append(left_by(estimator, metrics, log_lines))
    assert_same(*sides)
    assert sum(calls) == STEPS + 3 * 17 and max(calls) > 4


@pytest.mark.parametrize(("make", "reason"), SINGLE)
def test_a_graph_that_no_loop_can_run_makes_single_steps(make, reason, log_lines, calls, tmp_path):
    tf.get_logger().setLevel(logging.DEBUG)
    estimator_of(make, tmp_path).train(input_fn, steps=3)
    assert any(line.startswith("The graph runs single steps") and reason in line for line in log_lines)
    assert not calls


def stock_hooks(directory):
    return [
        v1.train.LoggingTensorHook(["shown"], every_n_iter=5, at_end=True),
        v1.train.SummarySaverHook(4, output_dir=str(directory), summary_op=v1.summary.scalar("own", 1.0)),
        v1.train.StepCounterHook(6, output_dir=str(directory)),
        v1.train.StopAtStepHook(num_steps=30),
        v1.train.FinalOpsHook("shown:0"),
    ]


def with_hooks(directory):
    def model_fn(features, labels, mode):
        return plain(features, labels, mode)._replace(training_hooks=stock_hooks(directory))

    return model_fn


@pytest.mark.slow
def test_stock_hooks_see_what_they_see_in_single_steps(log_lines, calls, tmp_path):
    sides = []
    for steps in (1, "auto"):
        log_lines.clear()
        directory = tmp_path / str(steps)

        estimator = estimator_of(with_hooks(directory / "own"), directory, steps_per_loop=steps)
        estimator.train(input_fn)
        sides.append((lines(log_lines), events(directory)))
    (one_lines, one_events), (other_lines, other_events) = sides
    assert one_lines == other_lines and one_events == other_events
    assert sum(calls) == 30 and max(calls) == 3


@pytest.mark.parametrize(
    ("settings", "pools"),
    [
        ({}, {0, -1}),
        slow({"steps_per_loop": 1}, {0, -1}),
        slow({"session_config": v1.ConfigProto(inter_op_parallelism_threads=2)}, {0}),
    ],
)
def test_short_steps_run_in_the_calling_thread_unless_a_config_has_pools(settings, pools, monkeypatch, tmp_path):
    used, run = set(), session._LocalSession._run_once

    def noting(self, fetches, feed_dict=None, options=None, run_metadata=None):
        used.add(options.inter_op_thread_pool if options else 0)
        return run(self, fetches, feed_dict, options, run_metadata)

    monkeypatch.setattr(session._LocalSession, "_run_once", noting)
    monkeypatch.setattr(looped_steps, "_SHORT_STEP", 1e9)  # on a busy machine, too
    estimator_of(plain, tmp_path, **settings).train(input_fn, max_steps=10)
    assert used == pools


def test_ops_that_a_hook_fetches_by_name_are_judged_once(monkeypatch, tmp_path):
    class ByName(v1.train.SessionRunHook):
        def before_run(self, run_context):
            return v1.train.SessionRunArgs("shown:0")

    judged, suit_one_thread = [], loopable.suit_one_thread
    monkeypatch.setattr(loopable, "suit_one_thread", lambda ops: judged.append(ops) or suit_one_thread(ops))
    monkeypatch.setattr(looped_steps, "_SHORT_STEP", 1e9)
    counts, settings = [], dict.fromkeys(("log_step_count_steps", "save_summary_steps"))
    for steps in (5, 10):
        judged.clear()
        estimator_of(plain, tmp_path / str(steps), **settings).train(input_fn, hooks=[ByName()], max_steps=steps)
        counts.append(len(judged))
    assert counts[0] == counts[1] > 0


def test_a_nan_ends_a_call_of_many_steps_and_nothing_is_saved_after_it(calls, tmp_path):
    def with_nan():
        batches = input_fn().enumerate()
        return batches.map(lambda index, batch: (batch[0], tf.where(tf.equal(index, 12), np.nan, batch[1])))

    settings = dict.fromkeys(("log_step_count_steps", "save_summary_steps"))
    estimator = estimator_of(plain, tmp_path, **settings)
    with pytest.raises(et.NanLossDuringTrainingError):
        estimator.train(with_nan, max_steps=19)
    assert sum(calls) == 13 and max(calls) > 5 and estimator.latest_checkpoint().endswith("-0")


KILLED = """
import os, signal, sys
sys.path[:0] = {path!r}
import estimator_train
import test_looped_steps as looped
import tensorflow as tf

steps = []
looped.count_into(steps, setattr)

def killing(index):
    if index == 33:
        print(index - sum(steps), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return index

def input_fn():
    def read(index, batch):
        with tf.control_dependencies([tf.numpy_function(killing, [index], tf.int64)]):
            return tf.nest.map_structure(tf.identity, batch)

    return looped.input_fn().enumerate().map(read)

looped.estimator_of(looped.draws, {directory!r}).train(input_fn, max_steps=looped.STEPS)
"""


@pytest.mark.slow
def test_a_training_killed_within_a_call_resumes_as_from_single_steps(log_lines, calls, tmp_path):
    script, printed = tmp_path / "killed.py", tmp_path / "printed"
    path = [str(Path(__file__).parent), *sys.path]
    script.write_text(KILLED.format(path=path, directory=str(tmp_path / "auto")))
    killed = warm_python.Popen([script], tmp_path, stdout=printed, stderr=tmp_path / "errors")
    assert killed.wait(100) == -signal.SIGKILL, (tmp_path / "errors").read_text()
    assert int(printed.read_text()) > 2  # steps of the call were done
    (written,) = (tmp_path / "auto").glob("*.tfevents.*")
    written.rename(written.with_name("a.tfevents.killed"))  # the name that it had may come again in the same second
    shutil.copytree(tmp_path / "auto", tmp_path / "1")
    sides = []
    for at_once in (1, "auto"):
        log_lines.clear()
        estimator = estimator_of(draws, tmp_path / str(at_once), steps_per_loop=at_once)
        assert estimator.get_variable_value("global_step") == 20
        estimator.train(input_fn, max_steps=STEPS)
        assert sum(calls) == (0 if at_once == 1 else STEPS - 20)
        sides.append(left_by(estimator, {}, log_lines))
    assert_same(*sides)
