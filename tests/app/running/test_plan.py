"""The plan says in a line each what a training is going to do."""

import dataclasses
import json

import numpy as np
import pytest
from PIL import Image

from estimator_train._engine.host import device_names
from estimator_train._engine.host.cluster_task import ClusterTask
from estimator_train.app import datasets
from estimator_train.app.datasets.images import image_files
from estimator_train.app.running import plan as plan_module
from estimator_train.app.running.plan import plan
from estimator_train.app.running.planned_run import PlannedRun
from estimator_train.app.runs.progress import Progress
from estimator_train.app.runs.spec import Settings, Training


@pytest.fixture
def planned(scans, tmp_path):
    """Returns the plan of a run on `scans` as {line: text}."""

    def planned(training=None, variables=None, data=True, finds_rate=False, progress=None, **settings):
        opened = datasets.open_dataset("images", str(scans)) if data is True else data
        base = {"dataset": "images", "data_dir": str(scans), "model": "small_cnn", "image_size": (24, 32)}
        base |= {"batch_size": 4, "class_names": ("bright", "dark")}
        training = Training(**{"epochs": 2} | (training or {}))
        model_dir = str(tmp_path / "run")
        lines = plan(
            PlannedRun(
                Settings(**base | settings),
                training,
                opened,
                model_dir,
                ClusterTask(),
                "normal",
                finds_rate,
                variables or {},
                progress=progress or Progress(),
            )
        )
        return {line[:12].rstrip(): line[13:] for line in lines}

    return planned


def test_a_plain_training_says_only_what_holds(planned, scans, tmp_path):
    assert planned() == {
        "data": "images: 12 images to train on and 4 to evaluate on, in 2 classes",
        "classes": "bright 6 + 2, dark 6 + 2",
        "files": str(scans),
        "model": "small_cnn for images of 24x32",
        "steps": "6: 2 epochs of 3 steps",
        "batch": "4 images",
        "devices": "the CPU: EPYC, 2 cores",
        "optimizer": "adam",
        "rate": "0.002, constant",
        "checkpoints": "every 10 minutes and at the end",
        "evaluation": "at the end",
        "folder": str(tmp_path / "run"),
    }


def test_images_of_16_bits_that_are_nearly_black_are_noticed(planned, tmp_path):
    for name in ("a/1", "a/2", "b/1", "b/2"):
        (tmp_path / "dark" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 4095, np.uint16)).save(tmp_path / "dark" / f"{name}.png")
    data = datasets.open_dataset("images", tmp_path / "dark")
    assert planned(data=data)["pixels"].startswith("16-bit images with values up to 4095 of 65535, nearly black to the")


def test_a_rate_test_says_that_it_keeps_only_its_plot(planned, tmp_path):
    lines = planned(finds_rate=True)
    assert lines.pop("rate") == "rises from 1e-07 to 10, or until the loss diverges"
    assert lines.pop("folder") == f"{tmp_path}/run, for the plot learning_rate.png; nothing else is kept"
    assert lines.pop("steps") == "100: 33.33 epochs of 3 steps"
    plain = planned()
    assert lines == {
        name: plain[name] for name in ("data", "classes", "files", "model", "batch", "devices", "optimizer")
    }


def test_settings_of_the_model_and_the_optimizer_are_phrases_of_a_line(planned):
    lines = planned({"weight_decay": 0.01, "clip_norm": 1.0}, dropout=0.5, ema=0.0, label_smoothing=0.1)
    assert lines["model"] == "small_cnn for images of 24x32, dropout=0.5"
    assert lines["optimizer"] == (
        "adam, weight decay 0.01, gradients clipped to 1, averages with momentum 0, labels smoothed by 0.1"
    )


@pytest.mark.parametrize(
    ("training", "optimizer", "rate"),
    [
        ({}, None, "0.002, constant"),
        ({"learning_rate": 0.1}, None, "0.1, constant"),
        ({}, "sgd", "Keras' default, constant"),
        ({"schedule": "cosine", "warmup_steps": 2}, "sgd", "Keras' default, cosine, 2 steps of warm-up"),
        ({"replicas": 2}, None, "0.002, not scaled by the 2 replicas, constant"),
        (
            {"replicas": 2, "learning_rate": 0.1, "scale_learning_rate": True},
            None,
            "0.1, times 2 replicas: 0.2, constant",
        ),
    ],
)
def test_the_rate_and_its_schedule_are_said_given_or_not(planned, training, optimizer, rate):
    assert planned(training, optimizer=optimizer).get("rate") == rate


@pytest.mark.parametrize(
    ("settings", "frozen", "rate"),
    [
        ({"model": "vgg16"}, "block4_pool", "0.0001, constant"),
        ({"model": "mobilenet_v2"}, "all", "0.003, constant"),
        ({"model": "mobilenet_v2", "freeze": "10"}, "10", "0.0001, constant"),
        ({"model": "mobilenet_v2", "weights": "none"}, "none", "0.0001, constant"),
    ],
)
def test_frozen_layers_are_said_given_or_not(planned, settings, frozen, rate):
    lines = planned(**settings)
    assert lines["model"].endswith(f", freeze={frozen}") and lines["rate"] == rate


def test_several_batches_make_a_step(planned):
    lines = planned({"replicas": 2, "accumulate_steps": 3, "epochs": None, "max_steps": 5})
    assert lines["batch"] == "4 images on each of 2 replicas, 3 times: 24 a step"
    assert (lines["steps"], lines["devices"]) == ("5: 5 epochs of 1 step", "2 replicas on the CPU: EPYC, 2 cores")


@pytest.mark.parametrize(
    ("gpus", "is_there", "line"),
    [
        (None, True, "the first GPU: NVIDIA H200"),
        (1, False, "the first GPU: NVIDIA H200"),
        (2, True, "the first 2 GPUs: NVIDIA H200"),
    ],
)
def test_the_plan_names_the_gpus_that_train(planned, monkeypatch, gpus, is_there, line):
    monkeypatch.setattr(plan_module, "is_gpu_there", lambda: is_there)
    monkeypatch.setattr(device_names, "gpu", lambda: "NVIDIA H200")
    assert planned({"gpus": gpus})["devices"] == line


def test_evaluations_say_what_they_decide(planned):
    lines = planned({"evaluate_every": 6, "save_checkpoints_steps": 4, "keep_best": True, "monitor": "macro_f1:max"})
    assert lines["evaluation"] == "every 6 steps and at the end; the checkpoint of the best macro_f1 is kept"
    assert lines["checkpoints"] == "every 4 steps, every 6 steps and at the end"


def test_evaluations_of_several_workers_need_an_evaluator(planned, monkeypatch):
    task = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    lines = planned({"evaluate_every": 6, "keep_best": True})
    assert lines["evaluation"] == (
        "by a task of type evaluator, if there is one: every 6 steps and at the end; the checkpoint of the best loss "
        "is kept"
    )
    assert planned()["evaluation"] == "at the end"


def test_an_input_fn_has_no_images(planned):
    own = {"dataset": None, "data_dir": None, "input_fn": "a.py:f", "eval_input_fn": "a.py:g", "model": "a.py:m"}
    lines = planned({"epochs": None}, data=None, **own, image_size=None, batch_size=None, class_names=())
    assert lines["data"] == "a.py:f, and a.py:g to evaluate on"
    assert (lines["steps"], lines["batch"]) == ("until the data ends", "the input_fn's")
    assert "files" not in lines and "classes" not in lines


def test_variables_of_the_environment_and_a_checkpoint_are_named(planned, tmp_path):
    lines = planned(variables={"folder": "AIP_MODEL_DIR"}, progress=Progress("model.ckpt-3"))
    assert lines["folder"] == f"{tmp_path}/run, continuing from model.ckpt-3, from AIP_MODEL_DIR"


@pytest.mark.parametrize("times", [3, 4, 9])
def test_classes_that_differ_by_four_times_name_class_weights(times, planned, scans):
    data = datasets.open_dataset("images", str(scans))
    dark, bright = ([path for path in data.train.paths if name in path] for name in ("dark", "bright"))
    files = {"dark": dark[:1], "bright": [f"{path}.{copy}" for copy in "ab" for path in bright][:times]}
    data = dataclasses.replace(data, train=image_files(data.class_names, scans, files))
    uneven = (
        f"none, though bright has {times}.0 times the training images of dark; class_weights=balanced evens them out"
    )
    assert planned(data=data).get("class weight") == (uneven if times >= 4 else None)
    assert "none" not in planned({"class_weights": "balanced"}, data=data)["class weight"]


def test_class_weights_are_shown_for_the_first_classes(planned):
    assert planned({"class_weights": "balanced"})["class weight"] == "bright 1, dark 1"
    assert planned({"augment": "flip"})["augmentation"] == "flip"


def test_data_in_the_working_directory_has_a_name(planned, scans, monkeypatch):
    monkeypatch.chdir(scans)
    data = datasets.open_dataset("images", ".")
    assert planned(data=data, data_dir=".")["files"] == "."


def test_data_without_a_folder_names_the_split_that_is_not_used(planned, scans):
    data = datasets.open_dataset("images", str(scans))
    train, evaluated = (dataclasses.replace(part, paths=[]) for part in (data.train, data.eval))
    data = dataclasses.replace(data, train=train, eval=evaluated, left_out=("validation",))
    assert planned(data=data, dataset="tfds:beans", data_dir=None)["files"] == "without validation"
