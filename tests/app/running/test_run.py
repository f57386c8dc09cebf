"""A run as an object: what its methods do, give and refuse is what the command does, prints and refuses."""

import json
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train.app.errors import SettingError, as_flag
from estimator_train.app.models import classifier
from estimator_train.app.running import training
from estimator_train.app.runs.fields import settings_in
from estimator_train.app.runs.rules import Excludes, Needs
from estimator_train.app.runs.spec import RULES, STORED

SMALL = {"model": "small_cnn", "image_size": (24, 32), "batch_size": 4, "seed": 1}
PHASES = "freeze=all epochs=1 lr=1e-2; freeze=bottom epochs=1 lr=1e-3"


@pytest.fixture
def new(scans, tmp_path, monkeypatch, command):
    """Makes a run of small_cnn on `scans` in a folder of the working directory."""

    def new(folder="run", **settings):
        return et.runs.new(folder, dataset="images", data_dir=str(scans), **SMALL | settings)

    return new


def flags_of(settings):
    """Returns the arguments of the command that mean the same as settings in Python."""
    arguments = []
    for name, value in settings.items():
        if value is True:
            arguments.append(as_flag(name))
        elif isinstance(value, (tuple, list)):
            arguments += [as_flag(name), ("x" if name == "image_size" else ",").join(map(str, value))]
        else:
            arguments += [as_flag(name), str(value)]
    return arguments


def checkpoint(folder):
    """Returns {name: value} of all that the newest checkpoint in a folder holds."""
    reader = tf.train.load_checkpoint(str(folder))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_dtype_map()
        if "save_counter" not in name and "GRAPH" not in name
    }


def check_same(folder, other):
    first, second = checkpoint(folder), checkpoint(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_a_run_is_planned_trained_looked_at_and_resumed(new, scans, capsys):
    run = new(epochs=1)
    assert run.plan().facts["steps"] == "3: 1 epoch of 3 steps"
    assert "<td>3: 1 epoch of 3 steps</td>" in run.plan()._repr_html_()
    assert not os.path.exists("run")
    assert run.train() is run
    assert os.path.basename(run.kept) == "model.ckpt-3" and run.result["checkpoint"] == "model.ckpt-3"
    evaluation = run.evaluate()
    assert (
        evaluation.checkpoint == "model.ckpt-3" and evaluation.metrics["accuracy"] == run.result["metrics"]["accuracy"]
    )
    assert evaluation.classes.keys() == {"bright", "dark"} and np.sum(evaluation.confusion_matrix) == 4
    assert [row["true_class"] for row in evaluation.predictions] == ["bright"] * 2 + ["dark"] * 2
    assert "<caption>model.ckpt-3</caption>" in evaluation._repr_html_()
    (entry,) = run.predict(scans / "dark" / "0.jpeg")
    assert entry["file"] == str(scans / "dark" / "0.jpeg") and entry["probabilities"].keys() == {"bright", "dark"}
    again = et.runs.open("run")
    assert again.plan(epochs=2).facts["folder"] == "run, continuing from model.ckpt-3"
    assert os.path.basename(again.resume(epochs=2, quiet=True).newest) == "model.ckpt-6"
    assert again.training["epochs"] == 2 and again.spec.settings.model == "small_cnn"
    assert capsys.readouterr().out.count("evaluated run/model.ckpt-3") == 1


@pytest.mark.slow
def test_a_run_writes_its_report_and_its_model(new):
    run = new(epochs=1).train(quiet=True)
    assert run.report() == os.path.join("run", "report", "report.html") and os.path.exists("run/report/report.html")
    assert run.export("tflite") == os.path.join("run", "exported", "model.tflite")
    assert Path("run/exported/model.tflite").stat().st_size > 1000


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 2, "augment": "flip"},
        pytest.param({"epochs": 2, "replicas": 2}, marks=pytest.mark.slow),
        pytest.param({"epochs": 2, "evaluate_every": 2, "keep_best": True}, marks=pytest.mark.slow),
    ],
    ids=["one device", "two replicas", "evaluations"],
)
def test_python_and_the_command_leave_the_same_checkpoint(settings, new, scans, command):
    new("python", **settings).train(quiet=True)
    about = {"dataset": "images", "data_dir": str(scans)} | SMALL | settings
    assert command(*flags_of(about), "--model-dir", "command", "--quiet")[0] == 0
    check_same("python", "command")
    stored = [json.loads(Path(folder, "run.json").read_text()) for folder in ("python", "command")]
    assert stored[0]["settings"] == stored[1]["settings"] and stored[0]["training"] == stored[1]["training"]
    assert stored[0]["command"] is None  # sys.argv is that of a script or a kernel
    assert stored[1]["command"].startswith("estimator_train --dataset images --data-dir")


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"phases": PHASES}, {"epochs": 2, "cache": "features"}], ids=["phases", "features"]
)
def test_frozen_layers_train_to_the_same_checkpoint_by_both_ways(settings, scans, command, monkeypatch):
    def application(build, image_size, weights):
        keras.utils.set_random_seed(4)  # pretrained weights are the same each time
        layers = [keras.layers.Conv2D(2, 3, activation="relu", name=name) for name in ("bottom", "top")]
        return keras.Sequential([keras.Input((*image_size, 3)), *layers], name="small")

    monkeypatch.setattr(classifier, "application", application)
    about = {"dataset": "images", "data_dir": str(scans), "seed": 1, "batch_size": 4, "image_size": (32, 32)}
    about |= {"model": "mobilenet_v2"} | settings
    et.runs.new("python", **about).train(quiet=True)
    assert command(*flags_of(about), "--model-dir", "command", "--quiet")[0] == 0
    check_same("python", "command")


@pytest.mark.slow
def test_a_run_resumed_in_python_is_that_of_the_command(new, scans, command):
    new("whole", epochs=2).train(quiet=True)
    new("resumed", epochs=1).train(quiet=True).resume(epochs=2, quiet=True)
    check_same("whole", "resumed")


# A value of each setting that a rule names.
VALUES = {
    "dataset": "images", "data_dir": "scans", "task": "regression", "class_weights": "balanced", "input_fn": "own.py:f",
    "eval_input_fn": "own.py:f", "epochs": 2, "max_steps": 3, "batch_size": 4, "limit": 8, "split": "patient",
    "validation": 0.2, "cache": "features", "fast": True, "resize": "crop", "ignore_orientation": True,
    "phases": "freeze=all epochs=1", "freeze": "none", "model": "own.py:f", "learning_rate": 0.1, "augment": "flip",
    "gpus": 1, "replicas": 2, "all_reduce": "ring", "deterministic": True, "seed": 1, "early_stopping": 2,
    "keep_best": True, "evaluate_every": 2, "monitor": "accuracy", "momentum": 0.9, "optimizer": "adam",
}  # fmt: skip


def _breaking(rule):
    """Returns settings that break a rule, which may break an earlier one, too."""

    def given(name):
        name, has_value, value = name.partition("=")
        return {name: value if has_value else VALUES[name]}

    if isinstance(rule, Needs):
        return [given(rule.name)]
    others = [other for other in rule.others if other != "find_learning_rate"]  # of the command alone
    return [given(rule.name) | given(other) for other in others]


BROKEN = [settings for rule in RULES if isinstance(rule, (Excludes, Needs)) for settings in _breaking(rule)]
OUT_OF_RANGE = [
    {"epochs": 0}, {"max_steps": -1}, {"batch_size": 2**31}, {"image_size": (0, 9)}, {"limit": 1}, {"validation": 1.0},
    {"dropout": -0.1}, {"momentum": 1.5, "optimizer": "sgd"}, {"label_smoothing": 2.0}, {"seed": 2**32},
    {"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"clip_norm": float("inf")}, {"optimizer": "addam"},
    {"schedule": "linear"}, {"task": "detection"}, {"resize": "fit"}, {"augment": "flop"}, {"phases": "freeze=all"},
    {"cache": "gs://bucket"}, {"log": ("neptune",)}, {"model": "resnet"}, {"model": "absent.py:f"}, {"weights": ""},
    {"steps_per_loop": 0}, {"monitor": "accuracy:up", "keep_best": True, "evaluate_every": 2}, {"dataset": "nowhere"},
]  # fmt: skip


@pytest.mark.parametrize("settings", BROKEN + OUT_OF_RANGE, ids=str)
def test_python_and_the_command_refuse_the_same_in_the_same_words(settings, command):
    Path("own.py").write_text("f = print\n")
    with pytest.raises(SettingError) as refused:
        et.runs.new("run", **settings).plan()
    code, _, errors = command(*flags_of(settings), "--model-dir", "run", "--dry-run")
    words = refused.value.spelled(as_flag)
    name, has_name, rest = words.partition(": ")
    by_value = has_name and f"Invalid value for '{name}': {rest}" in errors
    assert code == 2 and (by_value or words in errors), (words, errors)
    assert "--" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 3}, "there is no setting epoch; epochs is near"),
        ({"nothing_like_it": 3}, "there is no setting nothing_like_it$"),
        ({"epochs": "5"}, "epochs: '5' is"),
        ({"epochs": 2.5}, "epochs: 2.5 is"),
        ({"steps_per_loop": "5"}, "steps_per_loop: '5' is neither a number nor auto"),
        ({"keep_best": "yes"}, "keep_best: 'yes' is"),
        ({"model": 5}, "model: 5 is not a text"),
    ],
)
def test_a_wrong_keyword_names_the_nearest_and_a_wrong_type_itself(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        et.runs.new(tmp_path / "run", **settings)


def test_every_setting_is_checked_by_its_kind_or_its_type():
    named = set(VALUES) | {name for settings in OUT_OF_RANGE for name in settings}
    rules = {name.partition("=")[0] for rule in RULES for name in (rule.name, *rule.others)}
    assert rules - {"find_learning_rate"} <= named <= settings_in(*STORED).keys()


def test_a_run_that_is_there_is_not_trained_anew(new):
    new(epochs=1).train(quiet=True)
    with pytest.raises(SettingError, match="run holds a run, trained to model.ckpt-3; add resume, or give another"):
        new(epochs=1).train()
    with pytest.raises(SettingError, match=r"run holds a run: resume\(\) continues it"):
        et.runs.open("run").train()
    with pytest.raises(SettingError, match="the run in run has seed 1, not 2; continue with the same"):
        et.runs.open("run").resume(seed=2)


def test_what_a_trained_run_is_asked_for_is_checked(new, scans):
    run = new(epochs=1).train(quiet=True)
    assert run.progress.step == 3 and run.evaluate(0).checkpoint == "model.ckpt-0"
    with pytest.raises(SettingError, match="top: 0 is not in the range x>=1"):
        run.predict(scans, top=0)
    with pytest.raises(SettingError, match="there is nothing to predict"):
        run.predict()
    with pytest.raises(SettingError, match="format nothing: give one of saved_model, keras, "):
        run.export("nothing", "out")
    raised = []
    thread = threading.Thread(target=lambda: raised.append(pytest.raises(SettingError, run.resume, epochs=2)))
    thread.start()
    thread.join()
    assert "a run is trained in the main thread" in str(raised[0].value)


def test_a_training_that_failed_is_resumed_on_the_same_object(new, monkeypatch):
    run = new(epochs=1)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="mine"):
        patch.setattr(training, "_write_report", lambda *_: (_ for _ in ()).throw(RuntimeError("mine")))
        run.train(quiet=True)
    assert run.resume(epochs=2, quiet=True).progress.step == 6


def test_ctrl_c_saves_a_checkpoint_and_interrupts_the_program(new, capsys):
    before = signal.getsignal(signal.SIGTERM)
    run = new(max_steps=10**6, log=("csv",))
    stop = threading.Timer(0.2, lambda: None)

    def interrupt():
        while not list(Path("run").glob("model.ckpt-0.index")):
            stop.finished.wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run.train()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == before
    assert "stopped by SIGINT with run/model.ckpt-" in capsys.readouterr().err
    assert int(run.newest.rpartition("-")[2]) >= 0
