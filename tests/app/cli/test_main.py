"""`main` escapes letters that standard output lacks, and reports unwritable standard output and a full disk."""

import errno
import os
import shutil
import subprocess
import sys

import pytest

from estimator_train.app.running import evaluation


def run(*arguments, stdout):
    command = [sys.executable, "-m", "estimator_train", *arguments]
    with open(stdout, "w") as file:
        return subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True)


def test_standard_output_on_a_full_disk_is_one_line():
    result = run("--help", stdout="/dev/full")
    line = "estimator_train: standard output cannot be written: No space left on device\n"
    assert (result.returncode, result.stderr) == (1, line)


def test_a_closed_standard_output_or_pipe_is_no_error():
    for shell in ('"$0" -m estimator_train --help >&-', '"$0" -m estimator_train --help | true'):
        result = subprocess.run(["bash", "-c", shell, sys.executable], stderr=subprocess.PIPE, text=True)
        assert (result.returncode, result.stderr) == (0, "")


def test_a_plan_needs_no_standard_streams(scans):
    flags = f"--dataset images --data-dir {scans} --dry-run <&- >&- 2>&-"
    result = subprocess.run(["bash", "-c", f'"$0" -m estimator_train {flags}', sys.executable])
    assert result.returncode == 0


def test_letters_that_standard_output_lacks_are_escaped(scans, tmp_path):
    for name, label in (("bright", "é"), ("dark", "Ω")):
        shutil.copytree(scans / name, tmp_path / "data" / label)
    flags = ["--dataset", "images", "--data-dir", tmp_path / "data", "--model-dir", tmp_path / "run", "--dry-run"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    result = subprocess.run([sys.executable, "-m", "estimator_train", *flags], capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert "classes      é 6 + 2, \\u03a9 6 + 2\n" in result.stdout.decode("latin-1")


@pytest.mark.parametrize(("path", "told"), [("run/evaluations.jsonl", "run/evaluations.jsonl"), (None, "a file")])
def test_a_file_that_does_not_fit_is_one_line(command, trained, path, told, monkeypatch):
    def evaluate(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(evaluation, "evaluate", evaluate)
    code, _, errors = command("evaluate", "--model-dir", trained.model_dir)
    assert (code, errors) == (1, f"estimator_train: {told} cannot be written: No space left on device\n")


def test_other_errors_keep_their_traceback(command, trained, monkeypatch):
    def evaluate(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(evaluation, "evaluate", evaluate)
    with pytest.raises(OSError, match="broken"):
        command("evaluate", "--model-dir", trained.model_dir)
