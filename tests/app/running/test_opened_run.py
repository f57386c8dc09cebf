"""run.json describes a run and repeats it, whoever has written it; --quiet and --verbose."""

import dataclasses
import datetime
import json
import platform
import re
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from estimator_train import __version__
from estimator_train.app import datasets
from estimator_train.app.errors import SettingError
from estimator_train.app.running.build import build_eval_input_fn
from estimator_train.app.running.opened_run import other_data
from estimator_train.app.running.run import Run
from estimator_train.app.runs import StoredRun, run_file


def losses(output):
    """Returns the printed evaluations without the checkpoints' directories."""
    return re.findall(r"^evaluated \S*/(model\.ckpt-\d+: loss .*)$", output, re.MULTILINE)


@pytest.fixture
def flags(scans, tmp_path):
    """The run of a training of 6 steps with shuffled images."""
    flags = ["--dataset", "images", "--data-dir", scans, "--model", "small_cnn", "--image-size", "16x24"]
    return [*flags, "--batch-size", "3", "--max-steps", "6", "--seed", "4", "--model-dir", tmp_path / "run"]


@pytest.mark.slow
def test_it_records_how_the_run_was_made_and_repeats_it(command, flags, scans, tmp_path):
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    command("--version")  # goes to tmp_path
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    started = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    code, output, _ = command(*flags)
    assert code == 0
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert told["command"] == f"estimator_train {' '.join(map(str, flags))}"
    assert started <= datetime.datetime.fromisoformat(told["started"]) <= datetime.datetime.now(datetime.timezone.utc)
    assert told["settings"] == {
        "dataset": "images", "data_dir": str(scans), "input_fn": None, "eval_input_fn": None, "model": "small_cnn",
        "weights": None, "image_size": [16, 24], "class_names": ["bright", "dark"], "batch_size": 3, "seed": 4,
        "limit": None, "split": None, "validation": None, "resize": None, "ignore_orientation": False, "fast": False,
        "optimizer": None, "momentum": None, "ema": None, "label_smoothing": None,
        "dropout": None, "freeze": None, "phases": None, "task": "classification", "label_moments": None,
        "held_out_by": "name",
    }  # fmt: skip
    assert (told["training"]["max_steps"], told["training"]["epochs"], told["last_step"]) == (6, None, 6)
    counts = {"train": {"bright": 6, "dark": 6}, "eval": {"bright": 2, "dark": 2}}
    assert told["data"] == {"train": 12, "eval": 4, "classes": counts}
    assert len(told["devices"]) == 1 and re.match("(CPU|GPU):0 ", told["devices"][0])
    versions = {"estimator_train": __version__, "tensorflow": tf.__version__, "python": platform.python_version()}
    assert versions.items() <= told["versions"].items()
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    assert told["git_commit"] == head
    assert not list((tmp_path / "run").glob("*.part"))

    # The same images in the same order, from memory.
    again = ["--config", "run/run.json", "--model-dir", tmp_path / "again", "--cache", "memory"]
    assert losses(command(*again)[1]) == losses(output) != []


@pytest.fixture
def levels(log_lines, monkeypatch):
    """Restores the log level and TensorFlow's variables afterwards."""
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    return log_lines


def evaluations(run):
    """Checkpoints and steps of the lines of evaluations.jsonl."""
    entries = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    assert all(entry["metrics"]["loss"] >= 0 for entry in entries)
    return [(entry["checkpoint"], entry["step"]) for entry in entries]


@pytest.mark.slow
def test_quiet_shows_the_last_result_only_and_each_evaluation_is_kept_once(command, own_flags, levels, tmp_path):
    flags = [*own_flags, "--model-dir", tmp_path / "run", "--evaluate-every", "2", "--max-steps", "5", "--keep-best"]
    code, output, errors = command(*flags, "--quiet")
    assert (code, errors, levels) == (0, "", [])
    assert re.fullmatch(r"evaluated \S+/best_checkpoint/model\.ckpt-5: loss \S+\n", output)
    assert evaluations(tmp_path / "run") == [(f"model.ckpt-{step}", step) for step in (2, 4, 5)]


def test_verbose_shows_the_info_log_and_the_last_evaluation_is_kept(command, own_flags, levels, tmp_path):
    assert command(*own_flags, "--model-dir", tmp_path / "run", "--max-steps", "2", "--verbose")[0] == 0
    assert any(line.startswith("Saving checkpoints for 2") for line in levels)
    assert evaluations(tmp_path / "run") == [("model.ckpt-2", 2)]


@pytest.mark.slow
def test_a_limited_run_is_evaluated_on_what_it_was_limited_to(command, flags, tmp_path):
    assert command(*flags, "--limit", "3")[0] == 0
    code, output, _ = command("evaluate", "--model-dir", tmp_path / "run")
    assert code == 0
    assert "of 3 examples" in output


def test_a_model_without_frozen_layers_has_no_features_to_cache(command, flags):
    code, _, errors = command(*flags, "--cache", "features")
    assert code == 2
    assert "No frozen layers lead the model" in errors.splitlines()[-1]


@pytest.mark.parametrize("name", ["tfds:cats_vs_dogs", "hf:beans"])
def test_a_run_of_a_downloaded_dataset_is_evaluated_on_a_folder(name, settings, scans, monkeypatch):
    run = dataclasses.replace(settings, dataset=name, data_dir=None)
    _, data = other_data(run, None, str(scans))
    assert (data.name, data.eval_examples) == ("images", 16)
    opened = []
    monkeypatch.setattr(datasets, "open_evaluation", lambda name, *_, **__: opened.append(name) or data)
    other_data(run, name, str(scans))
    assert opened == [name]  # named again, it is read from where it was downloaded to


def test_a_run_on_files_is_evaluated_on_arrays_without_flags_of_files(settings, tmp_path):
    x, y = np.zeros([4, 24, 32], np.uint8), np.arange(4) % 2
    names = np.array(settings.class_names)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x, y_test=y, class_names=names)
    run = dataclasses.replace(settings, fast=True, resize="squash")
    settings_there, data = other_data(run, "npz", str(tmp_path / "a.npz"))
    images, _ = next(iter(build_eval_input_fn(settings_there, data)()))
    assert images.shape == (4, 24, 32, 3)
    with pytest.raises(SettingError, match="ignore_orientation is for image files, and npz has"):
        other_data(dataclasses.replace(run, resize="crop"), "npz", str(tmp_path / "a.npz"))


@pytest.fixture
def stored(settings, tmp_path):
    """Writes run.json with other values and returns its path; a part may be replaced as a whole."""

    def stored(part, values):
        run = {"settings": dataclasses.asdict(settings), "training": {"max_steps": 3}}
        run[part] = run[part] | values if isinstance(values, dict) else values
        (tmp_path / "run.json").write_text(json.dumps(run))
        return tmp_path / "run.json"

    return stored


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("settings", {"batch_size": 10**12}, "batch_size: 1000000000000 is too large; 2147483647 is the most"),
        ("settings", {"image_size": [10**9, 10**9]}, "image_size: .* is not a size in pixels such as 96 or 224x224"),
        ("settings", {"image_size": [True, 24]}, r"image_size is \[true, 24\]"),
        ("settings", {"seed": -1}, "seed: -1 is not in the range"),
        ("settings", {"dropout": float("nan")}, "dropout: .*nan"),
        ("settings", {"optimizer": "best"}, "optimizer: 'best' is not one of"),
        ("settings", {"phases": "freeze=all"}, "phases: "),
        ("settings", {"new_flag": 3}, "new_flag is 3, and this version does not know it; update estimator_train"),
        ("training", {"new_flag": "x"}, 'new_flag is "x", and this version does not know it; update estimator_train'),
        ("training", {"epochs": "3"}, 'epochs is "3"; delete the file, or use another folder'),
        ("training", {"epochs": 0}, "epochs: 0 is not in the range"),
        ("training", {"log": [1]}, r"log is \[1\]"),
        ("training", {"keep_best": None}, "keep_best is null"),
        ("training", {"augment": "blur"}, "augment: there is no 'blur'"),
        ("training", [], r"its training is \[\]"),
    ],
    ids=str,
)
def test_an_odd_setting_is_refused_in_one_line_by_all_that_read_it(stored, tmp_path, part, values, message):
    stored(part, values)
    for reader in (run_file.spec_in, StoredRun, Run):
        with pytest.raises(SettingError, match=f"run.json cannot be read: {message}"):
            reader(str(tmp_path))


def test_a_flag_of_a_newer_version_that_is_not_given_is_left_out(stored, settings, tmp_path):
    stored("settings", {"new_flag": None, "new_switch": False})
    assert run_file.spec_in(tmp_path).settings == settings
    stored("training", {"new_flag": None, "learning_rate": 1})
    training = run_file.spec_in(tmp_path).training
    assert (training.max_steps, training.learning_rate) == (3, 1)
