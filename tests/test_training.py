"""train_and_evaluate evaluates and exports the checkpoints that its specs ask for, of Keras models and model_fns."""

import copy
import os

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import FAR, KINDS, approaching, approaching_model_fn, label, maker, receiver, scalars

import estimator_train as et
from estimator_train._engine.checkpoints import object_based

v1 = tf.compat.v1


@pytest.fixture(params=KINDS)
def make_estimator(request, tmp_path):
    quiet = {"log_step_count_steps": None, "save_summary_steps": None, "checkpoint_save_graph_def": False}
    return maker(approaching, request.param, tmp_path / "run", save_checkpoints_steps=3, **quiet)


# Tests that do not depend on the kind of model use the faster one, or the other where a call of it runs many steps.
of_model_fn = pytest.mark.parametrize("make_estimator", ["model_fn"], indirect=True)
of_keras = pytest.mark.parametrize("make_estimator", ["keras"], indirect=True)


@pytest.fixture
def estimator(tmp_path):
    config = et.RunConfig(tmp_path / "run", save_summary_steps=None, checkpoint_save_graph_def=False)
    return et.Estimator(approaching_model_fn, config=config)


AT_5 = label(5.0, 1)  # its loss is |5 - step|


def evaluations(estimator, name=None):
    return scalars(estimator.eval_dir(name))


class Recorder(et.Exporter):
    """Exports nothing, but records its calls; it skips all steps except `exported`."""

    def __init__(self, name="recorder", exported=()):
        self._name, self._exported = name, exported
        self.asked = []

    @property
    def name(self):
        return self._name

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        step = int(eval_result["global_step"])
        assert export_path == os.path.join(estimator.model_dir, "export", self._name)
        assert checkpoint_path == os.path.join(estimator.model_dir, f"model.ckpt-{step}")
        self.asked.append((step, is_the_final_export))
        return f"{self._name}-{step}".encode() if step in self._exported else None


# when


@pytest.mark.parametrize(
    ("make_estimator", "when", "steps"),
    [
        pytest.param("model_fn", {"throttle_secs": 0}, [3, 6, 9, 10], marks=pytest.mark.slow),
        pytest.param("keras", {"throttle_secs": 0}, [3, 6, 9, 10], marks=pytest.mark.slow),
        pytest.param("model_fn", {}, [3, 10], marks=pytest.mark.slow),
        pytest.param("model_fn", {"every_steps": 6}, [6, 10], marks=pytest.mark.slow),
        ("keras", {"every_steps": 4}, [4, 8, 10]),
    ],
    indirect=["make_estimator"],
)
def test_evaluations_come_at_exactly_the_steps_asked_for(when, steps, make_estimator):
    estimator = make_estimator()
    metrics, exports = et.train_and_evaluate(
        estimator, et.TrainSpec(FAR, max_steps=10), et.EvalSpec(AT_5, steps=None, **when)
    )
    assert evaluations(estimator) == [(step, abs(5 - step)) for step in steps]
    assert metrics == {"loss": 5, "mse": 25, "global_step": 10}
    assert exports == []


@of_keras
def test_checkpoints_come_at_the_steps_of_both_settings_and_no_others(make_estimator):
    estimator = make_estimator(save_checkpoints_steps=4, keep_checkpoint_max=20)
    et.train_and_evaluate(estimator, et.TrainSpec(FAR, max_steps=11), et.EvalSpec(AT_5, every_steps=5))
    assert [step for step, _ in evaluations(estimator)] == [5, 10, 11]
    paths = tf.train.get_checkpoint_state(estimator.model_dir).all_model_checkpoint_paths
    assert [int(path.rpartition("-")[2]) for path in paths] == [0, 4, 5, 8, 10, 11]


@pytest.mark.slow
@of_model_fn
def test_evaluations_every_so_many_steps_need_no_checkpoints_by_steps(make_estimator):
    estimator = make_estimator(save_checkpoints_steps=None, save_checkpoints_secs=600)
    et.train_and_evaluate(estimator, et.TrainSpec(FAR, max_steps=5), et.EvalSpec(AT_5, every_steps=2))
    assert [step for step, _ in evaluations(estimator)] == [2, 4, 5]
    assert estimator.config.save_checkpoints_secs == 600


@pytest.mark.slow
def test_added_metrics_are_part_of_evaluations_during_training(tmp_path):
    estimator = et.add_metrics(
        approaching("keras", et.RunConfig(tmp_path)), lambda labels: {"label": v1.metrics.mean(labels)}
    )
    found = []
    exporter = et.FinalExporter("unused", receiver)
    exporter.export = lambda **arguments: found.append(arguments["eval_result"]["label"])
    eval_spec = et.EvalSpec(AT_5, exporters=exporter, every_steps=1)
    et.train_and_evaluate(estimator, et.TrainSpec(FAR, 2), eval_spec)
    assert found == [5, 5]


@pytest.mark.smoke
@of_model_fn
def test_skipped_evaluations_are_logged(make_estimator, log_lines):
    et.train_and_evaluate(make_estimator(), et.TrainSpec(FAR, max_steps=9), et.EvalSpec(AT_5))
    assert log_lines.count("Skip the current checkpoint eval due to throttle secs (600 secs).") == 1


@pytest.mark.slow
@of_keras
def test_metrics_are_those_of_separate_train_and_evaluate_calls(make_estimator, batches, tmp_path):
    x = np.random.default_rng(3).normal(size=(24, 1)).astype("float32")
    train, evaluate = batches((x, 2 * x), 4), batches((x, 3 * x), 7)
    together, apart = (make_estimator(model_dir=tmp_path / name) for name in ("together", "apart"))
    metrics, _ = et.train_and_evaluate(together, et.TrainSpec(train), et.EvalSpec(evaluate, None, throttle_secs=0))
    assert metrics == apart.train(train).evaluate(evaluate)
    assert metrics["global_step"] == 6
    (middle, loss), _ = evaluations(together)
    checkpoint = os.path.join(together.model_dir, f"model.ckpt-{middle}")
    assert loss == apart.evaluate(evaluate, checkpoint_path=checkpoint)["loss"]


@pytest.mark.slow
@of_model_fn
def test_evaluations_do_not_restart_the_training_data(make_estimator):
    starts = []

    def examples():
        starts.append(None)
        for _ in range(8):
            yield [[1.0]], [[1e3]]

    def input_fn():
        spec = tf.TensorSpec([1, 1])
        return tf.data.Dataset.from_generator(examples, output_signature=(spec, spec))

    metrics, _ = et.train_and_evaluate(make_estimator(), et.TrainSpec(input_fn), et.EvalSpec(AT_5, throttle_secs=0))
    assert metrics["global_step"] == 8
    assert len(starts) == 1


@pytest.mark.slow
def test_no_function_is_built_again_for_each_evaluation_of_a_keras_model(tmp_path):
    def traces(evaluated):
        calls = []

        def loss(y_true, y_pred):
            calls.append(None)
            return tf.abs(y_true - y_pred)

        model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
        model.compile("sgd", loss)
        estimator = et.model_to_estimator(model, config=et.RunConfig(tmp_path / str(evaluated)))
        et.train_and_evaluate(estimator, et.TrainSpec(FAR, max_steps=evaluated), et.EvalSpec(AT_5, None, every_steps=1))
        assert len(evaluations(estimator)) == evaluated
        return len(calls)

    assert traces(1) == traces(5)


# the end


@pytest.mark.slow
def test_an_evaluation_on_the_way_reads_no_file_and_gives_its_numbers(mirrored, data, batches, monkeypatch, tmp_path):
    model = keras.Sequential([keras.layers.BatchNormalization(input_shape=(4,)), keras.layers.Dense(3, "softmax")])
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    config = et.RunConfig(tmp_path, train_distribute=mirrored(2))
    estimator = et.model_to_estimator(model, config=config)
    read, restore = [], object_based.restore
    monkeypatch.setattr(object_based, "restore", lambda *args: read.append(args[2]) or restore(*args))
    evaluated = []

    class Keeps(et.Exporter):
        name = "keeps"

        def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
            evaluated.append((checkpoint_path, eval_result))

    eval_spec = et.EvalSpec(batches(data, 32), None, exporters=Keeps(), every_steps=2)
    et.train_and_evaluate(estimator, et.TrainSpec(batches(data, 8), max_steps=6), eval_spec)
    assert [path[-2:] for path in read] == ["-6"]
    assert [path[-2:] for path, _ in evaluated] == ["-2", "-4", "-6"]
    for path, results in evaluated:
        assert estimator.evaluate(batches(data, 32), checkpoint_path=path) == results
    assert len(read) == 4


@pytest.mark.parametrize(
    ("end", "make_estimator"),
    [
        ("max_steps", "model_fn"),
        pytest.param("early stopping", "model_fn", marks=pytest.mark.slow),
        pytest.param("data", "keras", marks=pytest.mark.slow),
    ],
    indirect=["make_estimator"],
)
def test_final_exporter_exports_the_last_checkpoint_however_training_ended(end, make_estimator):
    estimator = make_estimator()
    early = et.experimental.stop_if_lower_hook(estimator, "loss", 3, run_every_secs=None, run_every_steps=1)
    spec = {
        "max_steps": et.TrainSpec(FAR, max_steps=6),
        "data": et.TrainSpec(label(1e3, 6)),
        "early stopping": et.TrainSpec(FAR, hooks=[early], max_steps=50),  # the loss is 2 at step 3, and 1 at 6
    }[end]
    last = 3 if end == "early stopping" else 6
    exporters = [et.FinalExporter("final", receiver), recorder := Recorder()]
    metrics, (path, nothing) = et.train_and_evaluate(
        estimator, spec, et.EvalSpec(AT_5, throttle_secs=0, exporters=exporters)
    )
    assert metrics["global_step"] == last
    assert nothing is None
    assert [step for step, _ in evaluations(estimator)] == list(range(3, last + 1, 3))
    assert recorder.asked[-1] == (last, True)
    assert [is_final for _, is_final in recorder.asked].count(True) == 1
    serve = tf.saved_model.load(path).signatures["serving_default"]
    assert serve(tf.constant([[1.0]]))["dense"].numpy() == last
    assert len(os.listdir(os.path.dirname(path))) == 1


@pytest.mark.slow
@of_model_fn
def test_a_finished_training_still_gives_metrics_and_exports(make_estimator):
    train_spec = et.TrainSpec(FAR, max_steps=4)
    exporter = et.FinalExporter("final", receiver)
    eval_spec = et.EvalSpec(AT_5, exporters=exporter)
    metrics, _ = et.train_and_evaluate(make_estimator(), train_spec, eval_spec)
    again, (path,) = et.train_and_evaluate(make_estimator(), train_spec, eval_spec)
    assert again == metrics == {"loss": 1, "mse": 1, "global_step": 4}
    assert tf.io.gfile.exists(os.path.join(path, b"saved_model.pb"))


def test_an_exporter_that_skipped_the_last_checkpoint_is_called_again(estimator):
    skips, exports = Recorder("skips"), Recorder("exports", exported=[4])
    eval_spec = et.EvalSpec(AT_5, exporters=[skips, exports], every_steps=2)
    _, results = et.train_and_evaluate(estimator, et.TrainSpec(label(1e3, 4)), eval_spec)
    assert skips.asked == [(2, False), (4, False), (4, True)]
    assert exports.asked == [(2, False), (4, False)]
    assert results == [None, b"exports-4"]


@pytest.mark.slow
@of_keras
def test_resumed_training_first_evaluates_what_a_kill_left_undone(make_estimator):
    estimator = make_estimator()
    estimator.train(FAR, max_steps=3)
    recorder = Recorder()
    eval_spec = et.EvalSpec(AT_5, throttle_secs=0, exporters=recorder)
    et.train_and_evaluate(estimator, et.TrainSpec(FAR, max_steps=9), eval_spec)
    assert recorder.asked == [(3, False), (6, False), (9, True)]


# several evaluations


@pytest.mark.slow
@of_model_fn
def test_each_of_several_evaluations_has_its_own_times_metrics_and_exports(make_estimator):
    estimator = make_estimator(save_checkpoints_steps=2)
    near = et.EvalSpec(AT_5, name="near", every_steps=4, exporters=Recorder("a", exported=[8]))
    far = et.EvalSpec(FAR, steps=1, name="far", throttle_secs=0, exporters=Recorder("b"))
    metrics, exports = et.train_and_evaluate(estimator, et.TrainSpec(FAR, max_steps=8), [near, far])
    assert [step for step, _ in evaluations(estimator, "near")] == [4, 8]
    assert evaluations(estimator, "far") == [(step, 1e3 - step) for step in (2, 4, 6, 8)]
    assert {name: results["loss"] for name, results in metrics.items()} == {"near": 3, "far": 992}
    assert exports == {"near": [b"a-8"], "far": [None]}


def test_evaluations_of_one_name_and_exporters_of_one_name_are_refused(estimator):
    train_spec = et.TrainSpec(FAR, max_steps=1)
    with pytest.raises(ValueError, match="EvalSpecs must have different names"):
        et.train_and_evaluate(estimator, train_spec, [et.EvalSpec(FAR), et.EvalSpec(AT_5)])
    specs = [et.EvalSpec(FAR, name=name, exporters=Recorder("twice")) for name in "ab"]
    with pytest.raises(ValueError, match="`exporters` must have unique names.*twice"):
        et.train_and_evaluate(estimator, train_spec, specs)


# what is refused


def test_arguments_of_other_types_are_refused(estimator):
    train_spec, eval_spec = et.TrainSpec(FAR), et.EvalSpec(FAR)
    for arguments in [
        ("estimator", train_spec, eval_spec),
        (estimator, FAR, eval_spec),
        (estimator, train_spec, FAR),
        (estimator, train_spec, [eval_spec, FAR]),
    ]:
        with pytest.raises(TypeError, match="must have type `tf.estimator"):
            et.train_and_evaluate(*arguments)
    with pytest.raises(ValueError, match="at least one EvalSpec"):
        et.train_and_evaluate(estimator, train_spec, [])


def test_training_without_checkpoints_is_refused(make_estimator):
    estimator = make_estimator(save_checkpoints_steps=None, save_checkpoints_secs=None)
    with pytest.raises(ValueError, match="Set save_checkpoints_steps or save_checkpoints_secs"):
        et.train_and_evaluate(estimator, et.TrainSpec(FAR, max_steps=1), et.EvalSpec(AT_5))


def test_specs_are_tuples_with_the_defaults_of_tf_estimator():
    assert et.TrainSpec(FAR) == (FAR, None, (), ())
    assert et.EvalSpec(FAR) == (FAR, 100, None, (), (), 120, 600, None, ())
    exporter = Recorder()
    assert et.EvalSpec(FAR, exporters=exporter).exporters == et.EvalSpec(FAR, exporters=[exporter]).exporters
    assert et.EvalSpec(FAR)._replace(steps=3).steps == 3


def test_an_eval_spec_can_be_copied():
    spec = et.EvalSpec(lambda: None, name="val", every_steps=3, listeners=[et.LoggerListener()])
    assert copy.copy(spec) == spec
    assert copy.deepcopy(spec).every_steps == 3
