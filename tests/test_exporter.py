"""Exporters keep the SavedModels that they promise, whatever ends or kills a training."""

import functools
import os
import runpy
import shutil
import signal
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import warm_python
from models import FAR, KINDS, approaching, label, maker, receiver

import estimator_train as et
from estimator_train._engine.exports import directories

v1 = tf.compat.v1


QUIET = {"save_checkpoints_steps": 1, "save_summary_steps": None}


@pytest.fixture(params=KINDS)
def make_estimator(request, tmp_path):
    return maker(approaching, request.param, tmp_path / "run", **QUIET)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The directory of a run with the checkpoints of steps 0 to 4, in which w is the step."""
    return maker(approaching, "model_fn", tmp_path_factory.mktemp("run"), **QUIET)().train(FAR, steps=4).model_dir


@pytest.fixture
def trained(run, tmp_path):
    """An estimator with a copy of the run."""
    shutil.copytree(run, tmp_path / "run")
    return maker(approaching, "model_fn", tmp_path / "run", **QUIET)()


def evaluated(at_label, exporter, name=None):
    """An EvalSpec with the loss |label - step|, evaluated at every checkpoint."""
    return et.EvalSpec(label(at_label, 1), name=name, exporters=exporter, throttle_secs=0)


def step_of(path):
    """Returns w of a SavedModel, the step at which it was exported."""
    serve = tf.saved_model.load(path).signatures["serving_default"]
    return serve(tf.constant([[1.0]]))["dense"].numpy().item()


def steps_in(estimator, name, numbered=False):
    """Returns the steps of an exporter's SavedModels, oldest first; `numbered` ignores other files."""
    folder = os.path.join(estimator.model_dir, "export", name)
    names = [each for each in sorted(os.listdir(folder)) if not numbered or each.isdigit()]
    return [step_of(os.path.join(folder, each)) for each in names]


def ask(exporter, estimator, step, *, is_final=False, **eval_result):
    """Returns the exporter's result for the checkpoint of the step."""
    return exporter.export(
        estimator,
        os.path.join(estimator.model_dir, "export", exporter.name),
        os.path.join(estimator.model_dir, f"model.ckpt-{step}"),
        {"global_step": np.int64(step)} | {name: np.float32(value) for name, value in eval_result.items()},
        is_final,
    )


def less_auc(best_eval_result, current_eval_result):
    return current_eval_result["auc"] > best_eval_result["auc"]


# Exporter


def test_exporter_is_a_base_to_derive_from():
    with pytest.raises(TypeError, match="abstract"):
        et.Exporter()

    class Named(et.Exporter):
        name = "named"

        def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
            return None

    assert et.EvalSpec(FAR, exporters=[Named()]).exporters[0].name == "named"


@pytest.mark.parametrize("kind", [et.LatestExporter, et.BestExporter])
def test_keeping_no_export_is_refused(kind):
    with pytest.raises(ValueError, match="`exports_to_keep`, if provided, must be positive number. Got 0"):
        kind("name", receiver, exports_to_keep=0)


# FinalExporter


@pytest.mark.smoke
def test_final_exporter_exports_once_with_assets(trained, tmp_path):
    (tmp_path / "labels.txt").write_text("NORMAL\n")
    exporter = et.FinalExporter("final", receiver, {"more/labels.txt": str(tmp_path / "labels.txt")}, as_text=True)
    assert ask(exporter, trained, 3, loss=1) is None
    path = ask(exporter, trained, 4, is_final=True, loss=1)
    assert isinstance(path, bytes)
    path = path.decode()
    assert os.path.dirname(path) == os.path.join(trained.model_dir, "export", "final")
    assert step_of(path) == 4
    assert sorted(os.listdir(path)) == ["assets.extra", "saved_model.pbtxt", "variables"]
    with open(os.path.join(path, "assets.extra", "more", "labels.txt")) as file:
        assert file.read() == "NORMAL\n"


# LatestExporter


@pytest.mark.slow
@pytest.mark.parametrize("make_estimator", ["keras"], indirect=True)
def test_latest_exporter_keeps_the_newest(make_estimator):
    estimator = make_estimator()
    exporter = et.LatestExporter("latest", receiver, exports_to_keep=2)
    _, (path,) = et.train_and_evaluate(estimator, et.TrainSpec(FAR, max_steps=3), evaluated(9.0, exporter))
    assert steps_in(estimator, "latest") == [2, 3]
    assert step_of(path) == 3


def test_latest_exporter_can_keep_all_and_leaves_other_directories_alone(trained):
    keeps_all = et.LatestExporter("latest", receiver, exports_to_keep=None)
    for step in range(5):
        ask(keeps_all, trained, step)
    folder = os.path.join(trained.model_dir, "export", "latest")
    os.mkdir(os.path.join(folder, "2024"))
    ask(et.LatestExporter("latest", receiver, exports_to_keep=1), trained, 4)
    assert sorted(os.listdir(folder))[1:] == ["2024"]


@pytest.mark.parametrize("kind", [et.LatestExporter, et.BestExporter])
def test_a_kill_during_the_deletion_of_an_old_export_leaves_no_half_of_it(kind, trained, monkeypatch):
    exporter = kind("name", receiver, exports_to_keep=1)
    folder = os.path.join(trained.model_dir, "export", "name")
    ask(exporter, trained, 1, loss=2)

    def kill(path):
        os.remove(os.path.join(path, "saved_model.pb"))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tf.io.gfile, "rmtree", kill)
        ask(exporter, trained, 2, loss=1)
    assert steps_in(trained, "name", numbered=True) == [2]
    (half,) = [name for name in os.listdir(folder) if not name.isdigit()]
    assert half.startswith("temp-")
    assert os.listdir(os.path.join(folder, half)) != []


def test_nothing_of_an_export_is_outside_of_its_folder(trained, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    seen = []

    def looking_receiver():
        seen.extend(os.listdir(tmp_path / "temporary"))
        return receiver()

    path = ask(et.BestExporter("best", looking_receiver), trained, 1, loss=3).decode()
    assert seen == [] and os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_an_unreadable_result_of_the_best_is_taken_from_the_events(trained, warnings):
    trained.evaluate(label(2.0, 1), checkpoint_path=os.path.join(trained.model_dir, "model.ckpt-1"))  # its loss is 1
    path = ask(et.BestExporter("best", receiver), trained, 1, loss=1).decode()
    with open(os.path.join(path, "assets.extra", "eval_result.json"), "w") as file:
        file.write('{"loss": 1')
    assert ask(et.BestExporter("best", receiver), trained, 2, loss=2) is None
    assert "eval_result.json cannot be read" in warnings[0]
    assert ask(et.BestExporter("best", receiver), trained, 2, loss=0.5)


@pytest.mark.slow
def test_exports_within_one_second_keep_their_order(trained, monkeypatch):
    monkeypatch.setattr(directories, "time", SimpleNamespace(time=lambda: 1700000000.5))
    latest, best = et.LatestExporter("latest", receiver, exports_to_keep=2), et.BestExporter("best", receiver)
    best_alone = et.BestExporter("best_alone", receiver, exports_to_keep=1)
    for step in range(5):
        for exporter in (latest, best, best_alone):
            ask(exporter, trained, step, loss=10 - step)
    assert steps_in(trained, "latest") == [3, 4]
    assert steps_in(trained, "best") == [0, 1, 2, 3, 4]
    assert steps_in(trained, "best_alone") == [4]


# BestExporter


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_estimator", "name"), [("keras", "val"), ("model_fn", None)], indirect=["make_estimator"]
)
def test_best_exporter_exports_only_what_is_better_also_after_a_restart(name, make_estimator):
    def train(max_steps):
        estimator = make_estimator()
        eval_spec = evaluated(2.0, et.BestExporter(serving_input_receiver_fn=receiver), name)  # losses 1, 0, 1, 2
        _, exports = et.train_and_evaluate(estimator, et.TrainSpec(FAR, max_steps=max_steps), eval_spec)
        return steps_in(estimator, "best_exporter"), exports

    assert train(3) == train(4) == ([1, 2], [None])


def test_best_exporter_exports_a_better_model_after_a_restart(trained):
    assert ask(et.BestExporter("best", receiver), trained, 1, loss=3)
    assert ask(et.BestExporter("best", receiver), trained, 2, loss=4) is None
    assert ask(et.BestExporter("best", receiver), trained, 3, loss=3) is None
    assert ask(et.BestExporter("best", receiver), trained, 4, loss=2)
    assert steps_in(trained, "best") == [1, 4]


def test_best_exporter_keeps_the_best_where_it_keeps_one(trained):
    exporter = et.BestExporter("best", receiver, exports_to_keep=1)
    for step, loss in enumerate([5, 3, 4, 1, 2]):
        ask(exporter, trained, step, loss=loss)
    assert steps_in(trained, "best") == [3]


def test_best_exporter_takes_any_compare_fn_also_after_a_restart(trained):
    for step, auc in {1: 0.5, 2: 0.75, 3: 0.6}.items():
        ask(et.BestExporter("best", receiver, compare_fn=less_auc), trained, step, auc=auc, loss=9 - step)
    assert steps_in(trained, "best") == [1, 2]


def test_compare_fn_gets_all_metrics_of_numbers_after_a_restart(trained):
    seen = []

    def compare_fn(best_eval_result, current_eval_result):
        seen.append(best_eval_result)

    result = {"global_step": np.int64(1), "loss": np.float32(0.1), "table": np.eye(2), "image": b"a summary"}
    result |= {"words": np.array([b"cat", b"dog"], object), "parts": (1.0, np.ones(2)), "phase": np.complex64(1j)}
    folder = os.path.join(trained.model_dir, "export", "best")
    et.BestExporter("best", receiver).export(trained, folder, trained.latest_checkpoint(), result, False)
    ask(et.BestExporter("best", receiver, compare_fn=compare_fn), trained, 2, loss=1)
    (best,) = seen
    assert best["loss"] == np.float32(0.1)
    assert best["global_step"] == 1
    np.testing.assert_array_equal(best["table"], np.eye(2))
    assert best.keys() == {"loss", "global_step", "table"}


def test_best_exporter_compares_with_events_of_tf_estimators_exports(trained):
    trained.evaluate(label(2.0, 1), checkpoint_path=os.path.join(trained.model_dir, "model.ckpt-1"))  # its loss is 1
    folder = os.path.join(trained.model_dir, "export", "best")
    trained.export_saved_model(folder, receiver)
    exporter = et.BestExporter("best", receiver)
    assert ask(exporter, trained, 2, loss=2) is None
    assert ask(et.BestExporter("best", receiver, event_file_pattern="other/*.tfevents.*"), trained, 2, loss=2)
    trained.export_saved_model(folder, receiver)
    assert ask(exporter, trained, 2, loss=0.5)


def test_arguments_of_compare_fn_may_be_bound(trained):
    def higher(best_eval_result, current_eval_result, key):
        return current_eval_result[key] > best_eval_result[key]

    exporter = et.BestExporter("best", receiver, compare_fn=functools.partial(higher, key="auc"))
    for step, auc in {1: 0.5, 2: 0.75, 3: 0.6}.items():
        ask(exporter, trained, step, auc=auc, loss=1)
    assert steps_in(trained, "best") == [1, 2]


def test_a_bad_compare_fn_is_refused():
    with pytest.raises(ValueError, match="compare_fn must not be None"):
        et.BestExporter(compare_fn=None)
    with pytest.raises(ValueError, match=r"must include best_eval_result argument; it has \['a', 'b'\]"):
        et.BestExporter(compare_fn=lambda a, b: True)


def test_the_default_compare_fn_needs_a_loss(trained):
    exporter = et.BestExporter("best", receiver)
    ask(exporter, trained, 1, loss=3)
    with pytest.raises(ValueError, match="current_eval_result has no loss.*pass another compare_fn"):
        ask(exporter, trained, 2, auc=3)


KILLED = """
import os, signal, sys
import tensorflow as tf
import estimator_train as et

v1 = tf.compat.v1
AT_3 = lambda: tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.fill([1, 1], 3.0)))  # the loss is |3 - step|
exports = 0

def model_fn(features, labels, mode):
    prediction = features * v1.get_variable("w", [], initializer=v1.zeros_initializer())
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, predictions={"dense": prediction})
    loss = tf.reduce_mean(tf.abs(labels - prediction))
    train_op = v1.train.GradientDescentOptimizer(1.0).minimize(-prediction, global_step=v1.train.get_global_step())
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op)

def train(model_dir, killed_export):
    def receiver():
        global exports
        exports += 1
        if exports == killed_export:
            os.kill(os.getpid(), signal.SIGKILL)
        x = v1.placeholder(tf.float32, [None, 1])
        return et.export.TensorServingInputReceiver(x, x)

    estimator = et.Estimator(model_fn, model_dir, et.RunConfig(save_checkpoints_steps=1))
    exporter = et.BestExporter(serving_input_receiver_fn=receiver, exports_to_keep=1)
    eval_spec = et.EvalSpec(AT_3, name="val", exporters=exporter, throttle_secs=0)
    train_spec = et.TrainSpec(lambda: AT_3().repeat(), max_steps=5)
    return et.train_and_evaluate(estimator, train_spec, eval_spec)

if __name__ == "__main__":
    train(sys.argv[1], killed_export=3)
"""


@pytest.mark.slow
def test_a_kill_between_evaluation_and_export_loses_no_best_export(tmp_path):
    script, model_dir = tmp_path / "killed.py", str(tmp_path / "run")
    script.write_text(KILLED)
    killed = warm_python.run([script, model_dir], tmp_path, timeout=100)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    estimator = approaching("model_fn", et.RunConfig(model_dir))
    assert estimator.latest_checkpoint().endswith("-3")
    metrics, exports = runpy.run_path(str(script))["train"](model_dir, killed_export=None)
    assert metrics["global_step"] == 5
    assert exports == [None]
    folder = os.path.join(model_dir, "export", "best_exporter")
    best = [name for name in os.listdir(folder) if name.isdigit()]
    assert [step_of(os.path.join(folder, name)) for name in best] == [3]
