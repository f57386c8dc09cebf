"""A run whose data and folder are in ram://, which stands for gs:// and s3://: nothing of it is written to a disk."""

import json
import os
import sys
import tempfile

import pytest
import tensorflow as tf

from estimator_train.app.report import learning_rates

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@pytest.fixture(scope="module", autouse=True)
def quick_models():
    """small_cnn as it is, not the smaller one of conftest.py, which learns less in as many steps."""


@pytest.fixture
def written(monkeypatch, tmp_path):
    """Paths that Python opens for writing, makes or renames on a disk while the test runs."""
    temporary = tmp_path.parent / f"{tmp_path.name}-temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of modules that no test has imported before
    paths = _audited()
    yield paths
    paths.clear()


def _audited():
    if not _PATHS.is_hooked:
        sys.addaudithook(_PATHS.note)
        _PATHS.is_hooked = True
    _PATHS.clear()
    return _PATHS


class _Paths(list):
    """A hook of Python's audit events, which cannot be removed."""

    is_hooked = False

    def note(self, event, arguments):
        writes = event == "open" and isinstance(arguments[0], str | bytes) and (arguments[2] or 0) & _WRITING
        if writes or event in ("os.mkdir", "os.rename", "os.link", "os.symlink"):
            self.append(os.fsdecode(arguments[0]))


_PATHS = _Paths()


@pytest.fixture
def remote_scans(scans):
    """The images of `scans` in ram://."""
    for path in scans.glob("*/*"):
        tf.io.gfile.makedirs(f"ram://scans/{path.parent.name}")
        tf.io.gfile.copy(str(path), f"ram://scans/{path.parent.name}/{path.name}", overwrite=True)
    yield "ram://scans"
    # A run stays in memory: for rmtree, what lies in its eval_afterwards lies in its eval, too.
    tf.io.gfile.rmtree("ram://scans")


@pytest.mark.slow
def test_a_run_in_memory_needs_no_local_file_from_training_to_report(command, remote_scans, written, tmp_path):
    run = "ram://runs/scans"
    flags = ["--dataset", "images", "--data-dir", remote_scans, "--model", "small_cnn", "--image-size", "24x32"]
    flags += ["--batch-size", 4, "--seed", 1, "--model-dir", run]
    code, output, errors = command(*flags, "--max-steps", 2)
    assert code == 0, errors
    assert f"files        {remote_scans}" in output
    code, _, errors = command(*flags)
    assert code == 2 and f"{run} holds a run, trained to model.ckpt-2; add --resume" in errors
    code, output, errors = command(
        *("--model-dir", run, "--resume", "--max-steps", 4, "--evaluate-every", 2, "--keep-best", "--log", "csv")
    )
    assert code == 0, errors
    with tf.io.gfile.GFile(f"{run}/metrics.csv") as file:
        assert file.read().startswith("step,epoch,loss,")
    assert "continuing from model.ckpt-2" in output and f"the report is {run}/report/report.html" in output
    code, output, errors = command("evaluate", "--model-dir", run, "--checkpoint", f"{run}/model.ckpt-2", "--json")
    assert code == 0, errors
    assert json.loads(output)[0]["step"] == 2
    code, output, errors = command("predict", "--model-dir", run, "--json", f"{remote_scans}/dark/0.jpeg", remote_scans)
    assert code == 0, errors
    assert len(json.loads(output)) == 17 - 1
    code, output, errors = command("report", "--model-dir", run)
    assert code == 0, errors
    names = set(tf.io.gfile.listdir(run))
    assert {"run.json", "evaluations.jsonl", "timing.json", "checkpoint", "report", "eval", "export"} <= names
    assert "report.html" in tf.io.gfile.listdir(f"{run}/report")
    assert "checkpoint" in tf.io.gfile.listdir(f"{run}/export/best_checkpoint")
    with tf.io.gfile.GFile(f"{run}/evaluations.jsonl") as file:
        assert [json.loads(line)["step"] for line in file] == [2, 2, 4, 2, 2, 2]  # the kept one judges last
    # AutoGraph writes the code that it generates to temporary files, which Python opens by their folder.
    others = {os.devnull, tempfile.gettempdir()}
    assert [path for path in written if path not in others and "__autograph_generated_file" not in path] == []
    assert [name for name in os.listdir(tempfile.gettempdir()) if "__autograph_generated_file" not in name] == []
    assert os.listdir(tmp_path) == []


def test_the_plot_of_learning_rates_is_written_to_a_remote_folder(command, scans, tmp_path, monkeypatch):
    found = learning_rates.RangeTest([1e-3, 1e-2], [2.0, 1.0], [2.0, 1.5], 1e-3)
    monkeypatch.setattr(learning_rates, "find_learning_rate", lambda *_, **__: found)
    flags = ["--dataset", "images", "--data-dir", scans, "--model", "small_cnn", "--image-size", "24x32"]
    code, output, errors = command(*flags, "--model-dir", "ram://runs/rates", "--find-learning-rate")
    assert code == 0, errors
    assert "the plot is ram://runs/rates/learning_rate.png" in output
    with tf.io.gfile.GFile("ram://runs/rates/learning_rate.png", "rb") as file:
        assert file.read().startswith(b"\x89PNG")
    assert os.listdir(tmp_path) == []


def test_a_file_system_that_is_not_there_is_named_in_a_line(command):
    code, _, errors = command("evaluate", "--model-dir", "nofs://bucket/run")
    assert code == 2 and "TensorFlow has no file system nofs://" in errors and errors.count("\n") == 1
    code, _, errors = command("--dataset", "images", "--data-dir", "nofs://bucket/images")
    assert code == 2 and "TensorFlow has no file system nofs://" in errors and errors.count("\n") == 1


def test_what_needs_a_disk_is_refused_for_remote_folders(command, remote_scans):
    flags = ["--dataset", "images", "--data-dir", remote_scans]
    code, _, errors = command(*flags, "--cache", "ram://cache")
    assert code == 2 and "--cache ram://cache: give a folder on this machine, or memory" in errors
    code, _, errors = command("--dataset", "synthetic_oct", "--data-dir", "ram://drawn")
    assert code == 2 and "ram://drawn is remote; use a local directory" in errors
