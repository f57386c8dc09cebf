"""The Estimator's methods: exact steps, evaluation that counts every example once, lazy predictions, clear errors."""

import glob
import json
import os
import shutil
import subprocess
import sys
import traceback

import kinds
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import warm_python
from kinds import checkpoint_steps, counts, global_step, rows
from models import Fetched, events, scalars
from slow_cases import slow

import estimator_train as et
from estimator_train._engine import checkpoints
from estimator_train._engine.session import function_session

layers = keras.layers
v1 = tf.compat.v1

ITERATIONS = "optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"


def counting_estimator(model_dir, examples=12, **settings):
    """An Estimator of tf_keras that counts the steps that used each row of `rows`."""
    return kinds.counter("tf_keras", kinds.config(model_dir, **settings), examples)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The directory of a run that used each row once, with the checkpoints of steps 0 and 12."""
    files = {"save_summary_steps": 100, "checkpoint_save_graph_def": True}  # as by default
    return counting_estimator(tmp_path_factory.mktemp("run"), **files).train(rows()).model_dir


@pytest.fixture
def trained(run, tmp_path):
    """An estimator with a copy of the run."""
    shutil.copytree(run, tmp_path, dirs_exist_ok=True)
    return counting_estimator(tmp_path)


class OnStep(et.SessionRunHook):
    """Calls a function at one call of after_run."""

    def __init__(self, at, function):
        self.at, self.function, self.calls = at, function, 0

    def after_run(self, run_context, run_values):
        self.calls += 1
        if self.calls == self.at:
            self.function()


def abort():
    raise tf.errors.AbortedError(None, None, "a worker was lost")


# train: steps


@pytest.mark.parametrize("own_saver", [False, slow(True)])
def test_asynchronous_checkpoints_are_complete_when_listeners_see_them(own_saver, tmp_path):
    class Look(et.CheckpointSaverListener):
        damages = []

        def after_save(self, session, global_step):
            self.damages.append(checkpoints.damage_of(f"{tmp_path}/model.ckpt-{global_step}"))

    estimator = counting_estimator(tmp_path, save_checkpoints_steps=5, async_checkpoints=True)
    if own_saver:
        saver = v1.train.CheckpointSaverHook(str(tmp_path), save_steps=5, listeners=[Look()])
        estimator.train(rows(), hooks=[saver])
    else:
        estimator.train(rows(), saving_listeners=[Look()])
    assert Look.damages == [None] * 4
    assert checkpoint_steps(estimator) == [0, 5, 10, 12]
    for step in (5, 10):
        counted = tf.train.load_variable(f"{tmp_path}/model.ckpt-{step}", ITERATIONS)
        assert counted == step
    estimator.train(rows(), steps=3)  # without listeners they are waited for at the end
    assert checkpoints.damage_of(estimator.latest_checkpoint()) is None
    assert global_step(estimator) == 15


@pytest.mark.parametrize("replicas", [None, slow(2)])
def test_empty_data_trains_nothing_and_says_so(replicas, tmp_path, mirrored, log_lines):
    estimator = counting_estimator(tmp_path, train_distribute=mirrored(replicas))
    estimator.train(lambda: rows()().take(0))
    assert global_step(estimator) == 0
    assert "Loss for final step: None." in log_lines


def test_a_nan_loss_raises(tmp_path, log_lines):
    nan = np.full([4, 12], np.nan, "float32")
    estimator = counting_estimator(tmp_path)
    with pytest.raises(et.NanLossDuringTrainingError):
        estimator.train(lambda: tf.data.Dataset.from_tensor_slices((nan, nan[:, :1])).batch(2))
    assert "Model diverged with loss = NaN." in log_lines


def test_training_says_what_tf_estimator_said(tmp_path, log_lines):
    estimator = counting_estimator(tmp_path, log_step_count_steps=2, save_checkpoints_steps=3)
    estimator.train(rows(), steps=5)
    expected = [
        "Create CheckpointSaverHook.",
        f"Saving checkpoints for 0 into {tmp_path}/model.ckpt.",
        "loss = 0.0, step = 0",
        f"Saving checkpoints for 3 into {tmp_path}/model.ckpt.",
        f"Saving checkpoints for 5 into {tmp_path}/model.ckpt.",
    ]
    assert [line for line in log_lines if line in expected] == expected
    assert [line.split("step = ")[1].split()[0] for line in log_lines if ", step = " in line] == ["0", "2", "4"]
    assert any(line.startswith("global_step/sec: ") for line in log_lines)
    assert any(line.startswith("Using config: {") for line in log_lines)
    assert log_lines[-1].startswith("Loss for final step: ")

    log_lines.clear()
    estimator.train(rows(), steps=1)
    assert f"Restoring parameters from {tmp_path}/model.ckpt-5" in log_lines


@pytest.mark.slow
def test_two_runs_with_tf_random_seed_drop_out_the_same(data, batches, tmp_path):
    def loss(seed, name):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([layers.Dropout(0.5, input_shape=(4,)), layers.Dense(3, activation="softmax")])
        model.compile("sgd", "categorical_crossentropy")
        config = et.RunConfig(tf_random_seed=seed, save_summary_steps=1)
        estimator = et.model_to_estimator(model, model_dir=tmp_path / name, config=config)
        estimator.train(batches(data, 16), steps=3)
        return [value for _, value in scalars(estimator.model_dir)]

    first, again, other = loss(11, "first"), loss(11, "again"), loss(12, "other")
    assert len(first) == 3
    assert first == again
    assert first != other


# train: replicas and data that does not divide by them


@pytest.mark.slow
def test_fewer_examples_than_replicas_are_refused(tmp_path, mirrored):
    estimator = counting_estimator(tmp_path, examples=2, train_distribute=mirrored(3))
    with pytest.raises(tf.errors.InvalidArgumentError, match="3 replicas need at least 3 examples"):
        estimator.train(rows(examples=2))


# train: errors and recovery


def test_listeners_need_checkpoints(tmp_path):
    estimator = counting_estimator(tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=None)
    with pytest.raises(ValueError, match="There should be a CheckpointSaverHook to use saving_listeners"):
        estimator.train(rows(), saving_listeners=[et.CheckpointSaverListener()])


def test_the_estimator_refuses_what_is_no_config_and_a_second_model_dir(classifier, tmp_path):
    with pytest.raises(ValueError, match="config must be an instance of `RunConfig`"):
        et.model_to_estimator(classifier(), config={"model_dir": "run"})
    config = et.RunConfig(model_dir=tmp_path / "one")
    with pytest.raises(ValueError, match="set both in constructor and `RunConfig`"):
        et.model_to_estimator(classifier(), model_dir=tmp_path / "two", config=config)
    same = et.model_to_estimator(classifier(), model_dir=tmp_path / "one", config=config)
    assert same.model_dir == str(tmp_path / "one")
    assert os.path.isdir(et.model_to_estimator(classifier()).model_dir)


def test_what_reads_a_checkpoint_says_when_there_is_none(tmp_path):
    estimator = counting_estimator(tmp_path)
    assert estimator.latest_checkpoint() is None
    for read in (estimator.get_variable_names, lambda: estimator.get_variable_value("x")):
        with pytest.raises(ValueError, match=f"Could not find trained model in model_dir: {tmp_path}"):
            read()


def test_the_config_that_is_read_is_a_copy(tmp_path):
    estimator = counting_estimator(tmp_path)
    assert estimator.config is not estimator.config
    assert estimator.eval_dir() == os.path.join(tmp_path, "eval")
    assert estimator.eval_dir("test") == os.path.join(tmp_path, "eval_test")


@pytest.mark.parametrize(("steps_per_loop", "replicas"), [(1, None), slow(2, None), slow(1, 2)])
def test_an_aborted_step_resumes_from_the_last_checkpoint(steps_per_loop, replicas, tmp_path, mirrored):
    estimator = counting_estimator(
        tmp_path, save_checkpoints_steps=4, steps_per_loop=steps_per_loop, train_distribute=mirrored(replicas)
    )
    hook = OnStep(6 // steps_per_loop, abort)
    estimator.train(rows(epochs=3), hooks=[hook], max_steps=9)
    assert global_step(estimator) == estimator.get_variable_value(ITERATIONS) == 9
    assert sum(counts(estimator)) == 9 * (replicas or 1)
    assert hook.calls == {1: 6 + 5, 2: 3 + 3}[steps_per_loop]


def test_an_aborted_step_without_checkpoints_keeps_the_current_variables(tmp_path):
    estimator = counting_estimator(tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=None)
    hook = OnStep(3, abort)
    estimator.train(rows(epochs=2), hooks=[hook], max_steps=5)
    assert hook.calls == 5
    assert all(name.startswith(("events.out.tfevents.", "training.lock")) for name in os.listdir(tmp_path))


# train: checkpoints


def test_the_files_of_a_run_have_tf_estimators_names(trained, tmp_path):
    files = {name for name in os.listdir(tmp_path) if not name.startswith("events.out.tfevents.")}
    expected = {f"model.ckpt-{step}.{kind}" for step in (0, 12) for kind in ("index", "data-00000-of-00001")}
    assert files == expected | {"checkpoint", "graph.pbtxt", "training.lock"}
    assert 'model_checkpoint_path: "model.ckpt-12"' in (tmp_path / "checkpoint").read_text()


@pytest.mark.parametrize(("keep", "kept"), [(2, [4, 5]), slow(0, [0, 1, 2, 3, 4, 5])])
def test_keep_checkpoint_max_counts_over_all_runs(keep, kept, tmp_path):
    for _ in range(2):
        estimator = counting_estimator(tmp_path, save_checkpoints_steps=1, keep_checkpoint_max=keep)
        estimator.train(rows(), max_steps=3 if estimator.latest_checkpoint() is None else 5)
    assert checkpoint_steps(estimator) == kept


# evaluate


@pytest.mark.slow
def test_evaluate_equals_keras_at_every_batch_size_and_number_of_replicas(
    classifier, data, batches, mirrored, tmp_path
):
    model = classifier(metrics=["accuracy", "mae"])
    one, two, three = (
        et.model_to_estimator(model, model_dir=tmp_path, config=et.RunConfig(eval_distribute=mirrored(replicas)))
        for replicas in (None, 2, 3)
    )
    for examples, batch_size in [(96, 7), (96, 50), (33, 16), (4, 3)]:
        part = tuple(array[:examples] for array in data)
        expected = model.evaluate(*part, batch_size=batch_size, verbose=0, return_dict=True) | {"global_step": 0}
        for estimator in (one, two, three):
            results = estimator.evaluate(batches(part, batch_size))
            assert results == pytest.approx(expected, rel=1e-6), (examples, batch_size)
    # Three batches: at the end there is none for the second replica.
    first, *others = (two.evaluate(batches(data, 32)) for _ in range(3))
    assert all(other == first for other in others)


@pytest.mark.parametrize("replicas", [None, slow(2)])
def test_evaluate_refuses_empty_data(replicas, tmp_path, mirrored):
    estimator = counting_estimator(tmp_path, eval_distribute=mirrored(replicas))
    with pytest.raises(ValueError, match="no data"):
        estimator.evaluate(lambda: rows()().take(0))


@pytest.mark.smoke
def test_evaluate_takes_so_many_steps(classifier, data, batches, tmp_path, log_lines):
    model = classifier()
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    results = estimator.evaluate(batches(data, 8, epochs=None), steps=5)
    expected = model.evaluate(data[0][:40], data[1][:40], verbose=0, return_dict=True)
    assert results == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()} | {"global_step": 0}
    assert "Evaluation [5/5]" in log_lines
    for steps in (0, -1):
        with pytest.raises(ValueError, match=f"Must specify steps > 0, given: {steps}"):
            estimator.evaluate(batches(data, 8), steps=steps)
    with pytest.raises(TypeError, match="Hooks must be a SessionRunHook"):
        estimator.evaluate(batches(data, 8), hooks=[keras.callbacks.History()])


@pytest.mark.slow
def test_evaluate_writes_its_events_to_the_folder_of_its_name(classifier, data, batches, tmp_path, log_lines):
    estimator = et.model_to_estimator(classifier(), model_dir=tmp_path)
    estimator.train(batches(data, 48))
    results = estimator.evaluate(batches(data, 48), name="test")
    assert isinstance(results["loss"], np.float32)
    assert isinstance(results["global_step"], np.int64)
    found = {tag: value for step, tag, value in events(estimator.eval_dir("test")) if step == 2}
    assert found.keys() == {"loss", "accuracy", "checkpoint_path"}
    assert found["loss"] == pytest.approx(results["loss"])
    assert found["accuracy"] == pytest.approx(results["accuracy"])
    assert found["checkpoint_path"] == estimator.latest_checkpoint().encode()
    assert not os.path.exists(estimator.eval_dir())

    saved = f"accuracy = {results['accuracy']!s}, global_step = 2, loss = {results['loss']!s}"
    assert f"Saving dict for global step 2: {saved}" in log_lines
    assert f"Saving 'checkpoint_path' summary for global step 2: {tmp_path}/model.ckpt-2" in log_lines
    assert any(line.startswith("Starting evaluation at ") for line in log_lines)
    assert any(line.startswith("Finished evaluation at ") for line in log_lines)


def test_checkpoint_path_chooses_what_is_evaluated(trained, tmp_path):
    first = f"{tmp_path}/model.ckpt-0"
    assert trained.evaluate(rows(batch_size=12)) == {"loss": -12, "mae": 1, "global_step": 12}
    assert trained.evaluate(rows(batch_size=12), checkpoint_path=first) == {"loss": 0, "mae": 0, "global_step": 0}
    assert trained.evaluate(rows(batch_size=12)) == {"loss": -12, "mae": 1, "global_step": 12}
    with pytest.raises(ValueError, match="not a valid checkpoint: .*model.ckpt-77"):
        trained.evaluate(rows(), checkpoint_path=f"{tmp_path}/model.ckpt-77")


def test_evaluate_without_a_checkpoint_takes_the_given_weights(tmp_path, log_lines):
    assert counting_estimator(tmp_path).evaluate(rows()) == {"loss": 0, "mae": 0, "global_step": 0}
    assert any(line.startswith(f"Could not find trained model in model_dir: {tmp_path}") for line in log_lines)


class Traced(layers.Layer):
    traces = 0

    def call(self, inputs):
        Traced.traces += 1
        return inputs


@pytest.mark.slow
def test_a_second_call_does_not_trace_and_reads_only_a_changed_checkpoint(mirrored, tmp_path, log_lines):
    inputs = keras.Input((12,))
    model = keras.Model(inputs, layers.Dense(1)(Traced()(inputs)))
    model.compile("sgd", "mse")
    config = et.RunConfig(train_distribute=mirrored(2), eval_distribute=mirrored(2))
    estimator = et.model_to_estimator(model, model_dir=tmp_path, config=config)

    def restored():
        return sum(line.startswith("Restoring parameters") for line in log_lines)

    def all_verbs():
        estimator.train(rows(batch_size=2), steps=1)
        for _ in range(2):
            estimator.evaluate(rows(batch_size=2))
            list(estimator.predict(rows(batch_size=2)))

    all_verbs()
    traces, before = Traced.traces, restored()
    all_verbs()
    assert Traced.traces == traces
    assert restored() - before == 3  # to train, to evaluate and to predict: each has a copy of the model


@pytest.mark.slow
def test_runs_without_hooks_share_a_graph_and_hooks_get_their_own(tmp_path, monkeypatch):
    graphs = []

    class Noted(function_session.HookGraph):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            graphs.append(self.graph)

    monkeypatch.setattr("estimator_train._engine.keras.model_state.HookGraph", Noted)
    estimator = counting_estimator(tmp_path)
    estimator.train(rows(), max_steps=3)

    def graphs_of(hooks):
        before = len(graphs)
        results = estimator.evaluate(rows(), hooks=hooks), list(estimator.predict(rows(), hooks=hooks))
        return results, len(graphs) - before

    (first, made), (again, made_again) = graphs_of([]), graphs_of([])
    assert (made, made_again) == (2, 0)
    hooks = [Fetched(lambda: 2 * v1.train.get_global_step())]
    (hooked, made_for_hooks), (last, made_at_last) = graphs_of(hooks), graphs_of([])
    assert (made_for_hooks, made_at_last) == (2, 0)
    assert hooks[0].values[-1] == 6
    for other in (again, hooked, last):
        np.testing.assert_equal(other, first)


class TracedInTraining(layers.Layer):
    traces = 0

    def call(self, inputs, training=False):
        TracedInTraining.traces += bool(training)
        return inputs


@pytest.mark.slow
def test_the_first_training_traces_the_step_once_a_replica(mirrored, tmp_path):
    inputs = keras.Input((12,))
    model = keras.Model(inputs, layers.Dense(1)(TracedInTraining()(inputs)))
    model.compile("adam", "mse", metrics=["mae"])
    TracedInTraining.traces = 0
    estimator = et.model_to_estimator(model, model_dir=tmp_path, config=et.RunConfig(train_distribute=mirrored(2)))
    estimator.train(rows(batch_size=2), steps=1)
    assert TracedInTraining.traces == 2


@pytest.mark.parametrize("steps_per_loop", [slow(1), 2])
def test_no_batch_is_asked_for_after_the_last_step(steps_per_loop, tmp_path):
    def ends_badly():
        for _ in range(3):
            yield [[1.0]], [[1.0]]
        raise RuntimeError("nobody needs a fourth batch")

    def input_fn():
        spec = tf.TensorSpec((1, 1))
        return tf.data.Dataset.from_generator(ends_badly, output_signature=(spec, spec))

    model = keras.Sequential([keras.Input((1,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    config = et.RunConfig(steps_per_loop=steps_per_loop)
    estimator = et.model_to_estimator(model, model_dir=tmp_path, config=config)
    estimator.train(input_fn, steps=3)
    assert global_step(estimator) == 3


@pytest.mark.parametrize("verb", ["evaluate", "predict"])
def test_a_checkpoint_deleted_after_it_was_read_is_not_missed(verb, trained):
    def delete():
        for path in glob.glob(f"{trained.latest_checkpoint()}.*"):
            os.remove(path)

    if verb == "evaluate":
        assert trained.evaluate(rows(), hooks=[OnStep(1, delete)])["global_step"] == 12
    else:
        predictions = [next(predicting := trained.predict(rows()))]
        delete()
        assert len(predictions + list(predicting)) == 12


def test_an_aborted_evaluation_starts_again_and_counts_every_example_once(classifier, data, batches, tmp_path):
    estimator = et.model_to_estimator(classifier(), model_dir=tmp_path)
    for steps in (None, 6):
        expected = estimator.evaluate(batches(data, 16), steps=steps)
        assert estimator.evaluate(batches(data, 16), steps=steps, hooks=[OnStep(4, abort)]) == expected


def test_a_hook_of_an_evaluation_sees_the_checkpoints_global_step(trained):
    steps = Fetched(v1.train.get_global_step)
    trained.evaluate(rows(batch_size=6), hooks=[steps])
    list(trained.predict(rows(batch_size=6), hooks=[steps]))
    assert steps.values == [12, 12, 12, 12]


@pytest.mark.parametrize("replicas", [None, slow(2)])
def test_evaluating_and_predicting_inside_training_disturbs_nothing(replicas, mirrored, tmp_path):
    strategy = mirrored(replicas)
    estimator = counting_estimator(
        tmp_path, train_distribute=strategy, eval_distribute=strategy, save_checkpoints_steps=2
    )
    steps, losses, predictions = [], [], []

    def evaluate(name=None):
        results = estimator.evaluate(rows(batch_size=6), name=name)
        steps.append(results["global_step"])
        losses.append(results["loss"])

    def look():
        evaluate(name="hook")
        predictions.extend(estimator.predict(rows()))

    class Listener(et.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            evaluate()

    estimator.train(rows(), steps=3, hooks=[OnStep(3, look)], saving_listeners=[Listener()])
    assert steps == [0, 2, 2, 3]
    assert losses[0] == 0 > losses[1] == losses[2] > losses[3]
    used = 3 * (replicas or 1)
    assert counts(estimator) == [1] * used + [0] * (12 - used)
    predicted = [float(value[0]) for prediction in predictions for value in prediction.values()]
    assert predicted == [1] * (2 * (replicas or 1)) + [0] * (12 - 2 * (replicas or 1))


# predict


@pytest.mark.smoke
def test_predict_is_lazy(tmp_path):
    calls = []

    def input_fn():
        calls.append(1)
        return rows()()

    predictions = counting_estimator(tmp_path).predict(input_fn)
    assert not calls
    next(predictions)
    assert calls == [1]


def test_predict_generators_interleave_and_leave_the_caller_in_eager_mode(classifier, data, batches, tmp_path):
    model = classifier()
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    graph = tf.Graph()
    forwards = estimator.predict(batches(data[0], 10))
    backwards = estimator.predict(batches(data[0][::-1].copy(), 7))
    expected = model.predict(data[0], verbose=0)
    for one, other, ahead, back in zip(forwards, backwards, expected, expected[::-1], strict=True):
        assert tf.executing_eagerly()
        assert int(tf.constant(1) + 1) == 2
        with graph.as_default():
            assert tf.compat.v1.get_default_graph() is graph
        np.testing.assert_allclose(next(iter(one.values())), ahead, rtol=1e-5)
        np.testing.assert_allclose(next(iter(other.values())), back, rtol=1e-5)


def test_interleaved_generators_keep_to_their_checkpoints(trained, tmp_path):
    before = trained.predict(rows(), checkpoint_path=f"{tmp_path}/model.ckpt-0")
    after = trained.predict(rows())
    pairs = [(*one.values(), *other.values()) for one, other in zip(before, after, strict=True)]
    assert pairs == [([0.0], [1.0])] * 12


def test_a_predict_generator_can_be_closed_early(tmp_path):
    estimator = counting_estimator(tmp_path)
    predictions = estimator.predict(rows(epochs=None))
    next(predictions)
    predictions.close()
    assert tf.executing_eagerly()
    assert tf.compat.v1.get_default_graph() is not None
    assert list(predictions) == []
    assert len(list(estimator.predict(rows()))) == 12


@pytest.fixture
def two_outputs(tmp_path):
    inputs = keras.Input((12,))
    one, ones = layers.Dense(1, name="one")(inputs), layers.Dense(2, name="ones")(inputs)
    model = keras.Model(inputs, {"one": one, "ones": ones})
    model.compile("sgd", "mse")
    return et.model_to_estimator(model, model_dir=tmp_path)


@pytest.mark.parametrize("keys", ["one", ["one"], ["one", "absent"]])
def test_predict_keys_choose_the_outputs(keys, two_outputs):
    prediction = next(two_outputs.predict(rows(), predict_keys=keys))
    assert {key: value.shape for key, value in prediction.items()} == {"one": (1,)}


def test_predict_refuses_keys_that_no_prediction_has_and_other_hooks(two_outputs):
    with pytest.raises(ValueError, match=r"Expected to run at least one output from .*'one'.*provided \['two'\]"):
        next(two_outputs.predict(rows(), predict_keys="two"))
    with pytest.raises(TypeError, match="Hooks must be a SessionRunHook"):
        next(two_outputs.predict(rows(), hooks=[keras.callbacks.History()]))


def test_predict_gives_whole_batches(two_outputs):
    shapes = [batch["ones"].shape for batch in two_outputs.predict(rows(batch_size=5), yield_single_examples=False)]
    assert shapes == [(5, 2), (5, 2), (2, 2)]


def test_predict_refuses_to_split_outputs_of_unequal_length(tmp_path):
    inputs = keras.Input((12,))
    model = keras.Model(inputs, {"each": layers.Dense(1)(inputs), "all": layers.Lambda(lambda x: x[:1])(inputs)})
    model.compile("sgd")
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    with pytest.raises(ValueError, match="Batch length of predictions should be same"):
        next(estimator.predict(rows(batch_size=4)))
    batch = next(estimator.predict(rows(batch_size=4), yield_single_examples=False))
    assert (batch["each"].shape, batch["all"].shape) == ((4, 1), (1, 12))


# model_dir


def test_a_relative_model_dir_outlasts_chdir(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    estimator = counting_estimator("run", save_summary_steps=1).train(rows(), steps=2)
    assert estimator.model_dir == "run"
    monkeypatch.chdir("elsewhere")
    assert estimator.model_dir == str(tmp_path / "run")
    assert estimator.evaluate(rows())["global_step"] == 2
    assert global_step(estimator.train(rows(), steps=1)) == 3
    assert os.listdir() == []


def test_a_relative_model_dir_equals_the_absolute_one_of_another_estimator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = et.RunConfig(tmp_path / "run")
    assert et.Estimator(lambda features: None, "run", config).model_dir == "run"
    with pytest.raises(ValueError, match="set both in constructor and `RunConfig`"):
        et.Estimator(lambda features: None, "other", config)


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?"])
def test_a_model_dir_that_is_a_glob_pattern_is_refused_at_once(name, tmp_path):
    with pytest.raises(ValueError, match="takes for a pattern; rename it"):
        et.Estimator(lambda features: None, tmp_path / name)
    with pytest.raises(ValueError, match="takes for a pattern; rename it"):
        et.Estimator(lambda features: None, config=et.RunConfig(tmp_path / name))
    assert os.listdir(tmp_path) == []


# wrong arguments and models' errors


def test_a_misplaced_argument_is_refused_with_the_remedy(tmp_path):
    estimator = counting_estimator(tmp_path)
    with pytest.raises(TypeError, match=r"Hooks must be a SessionRunHook, given: .*; pass .* as hooks=.CallbacksHook"):
        estimator.train(rows(), hooks=[keras.callbacks.TerminateOnNaN()])
    for method in (estimator.train, estimator.evaluate, lambda dataset: list(estimator.predict(dataset))):
        with pytest.raises(TypeError, match="must be callable, given: .*; pass a function that creates and returns"):
            method(rows()())
    for method in (estimator.train, estimator.evaluate):
        with pytest.raises(TypeError, match=r"must be callable, given: ndarray; pass et\.input_fns\.arrays\(x, y\)"):
            method(np.eye(12), np.ones(12))
    with pytest.raises(TypeError, match=r"given: ndarray; labels belong to what the input_fn returns"):
        estimator.train(rows(), np.ones(12))
    with pytest.raises(TypeError, match=r"steps must be a number, given: ndarray; labels belong to what the input_fn"):
        estimator.evaluate(rows(), np.ones(12))
    with pytest.raises(TypeError, match=r"Hooks must be a SessionRunHook in a list, given: <"):
        estimator.train(rows(), et.SessionRunHook())
    with pytest.raises(TypeError, match="must be callable"):
        et.TrainSpec(rows()())
    with pytest.raises(TypeError, match="must be a function, given: .*; pass it to model_to_estimator"):
        et.Estimator(keras.Sequential([layers.Dense(1)]))


@pytest.mark.parametrize("method", ["train", "evaluate"])
def test_missing_labels_are_reported(method, tmp_path):
    model = keras.Sequential([layers.Dense(3, input_shape=(12,))])
    model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    with pytest.raises(ValueError, match="Target data is missing: .* loss=categorical_crossentropy"):
        getattr(estimator, method)(lambda: rows()().map(lambda features, labels: features))


def test_an_error_in_a_model_has_a_traceback_as_short_as_fits(tmp_path):
    estimator = counting_estimator(tmp_path)
    with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 12") as raised:
        estimator.train(rows(examples=5))
    assert len("".join(traceback.format_exception(raised.value)).splitlines()) < 60
    tf.debugging.disable_traceback_filtering()
    try:
        with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 12") as raised:
            estimator.train(rows(examples=5))
    finally:
        tf.debugging.enable_traceback_filtering()
    assert len("".join(traceback.format_exception(raised.value)).splitlines()) > 100


# `fresh` draws noise in parallel, from which a seed alone does not make equal runs.
DETERMINISTIC = """
import hashlib
import sys
import numpy as np
import estimator_train as et
import tensorflow as tf
from estimator_train import distribution

def fresh(image, label):
    return image + tf.random.normal(tf.shape(image)) / 8, label

def input_fn():
    images = np.random.default_rng(3).random([48, 8, 8, 3], np.float32)
    examples = tf.data.Dataset.from_tensor_slices((images, np.eye(2, dtype=np.float32)[np.arange(48) % 2]))
    return examples.shuffle(48).repeat().map(fresh, 4).batch(8)

def train(keras, strategy):
    layers = keras.layers
    keras.utils.set_random_seed(5)
    convolution = layers.Conv2D(16, 3, activation="relu"), layers.Dropout(0.4), layers.Flatten()
    model = keras.Sequential([keras.Input((8, 8, 3)), *convolution, layers.Dense(2, activation="softmax")])
    model.compile("adam", "categorical_crossentropy")
    settings = dict(tf_random_seed=5, train_distribute=strategy, deterministic=True)
    estimator = et.model_to_estimator(model, config=et.RunConfig(f"{sys.argv[1]}/{keras.__name__}", **settings))
    estimator.train(et.input_fns.augmented(input_fn, "light, mixup"), max_steps=20)
    digest = hashlib.sha256()
    for name in estimator.get_variable_names():
        if "OBJECT_GRAPH" not in name:
            digest.update(np.asarray(estimator.get_variable_value(name)).tobytes())
    print(digest.hexdigest())

train(tf.keras, distribution.cpu_replicas(2))
import keras
train(keras, None)
"""


@pytest.mark.slow
def test_deterministic_trainings_in_two_processes_are_equal_to_the_bit(tmp_path):
    (tmp_path / "program.py").write_text(DETERMINISTIC)
    first = warm_python.run([tmp_path / "program.py", tmp_path / "first"], tmp_path)
    # This one has another hash seed, which orders sets.
    command = [sys.executable, tmp_path / "program.py", tmp_path / "second"]
    second = subprocess.run(command, capture_output=True, text=True)
    assert len(first.stdout.split()) == 2, first.stderr[-2000:]
    assert first.stdout == second.stdout


def test_deterministic_training_is_refused_what_has_no_order(batches, classifier, data, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: calls.append("enabled"))
    config = et.RunConfig(tmp_path, tf_random_seed=1, deterministic=True)
    estimator = et.model_to_estimator(classifier(), config=config)
    assert calls == ["enabled"]

    def input_fn():
        options = tf.data.Options()
        options.deterministic = False
        return batches(data, 8)().with_options(options)

    with pytest.raises(ValueError, match=r"deterministic=True of a RunConfig needs data in a fixed order"):
        estimator.train(input_fn, steps=1)
    cluster = {"cluster": {"ps": ["a:1"], "chief": ["a:2"]}, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(ValueError, match="deterministic=True cannot serve parameter servers"):
        et.Estimator(lambda features, labels: None, config=et.RunConfig(tf_random_seed=1, deterministic=True))
