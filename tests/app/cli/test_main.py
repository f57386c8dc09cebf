"""`main` reports errors that no command catches: unwritable standard output, and a full disk."""

import errno
import os
import subprocess
import sys

import pytest

from estimator_train.app.cli.run import evaluation


def run(*arguments, stdout):
    command = [sys.executable, "-m", "estimator_train", *arguments]
    with open(stdout, "w") as file:
        return subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True)


def test_standard_output_on_a_full_disk_is_one_line():
    result = run("recipes", stdout="/dev/full")
    line = "estimator_train: standard output cannot be written: No space left on device\n"
    assert (result.returncode, result.stderr) == (1, line)


def test_a_closed_standard_output_or_pipe_is_no_error():
    for shell in ('"$0" -m estimator_train recipes >&-', '"$0" -m estimator_train recipes | true'):
        result = subprocess.run(["bash", "-c", shell, sys.executable], stderr=subprocess.PIPE, text=True)
        assert (result.returncode, result.stderr) == (0, "")


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
