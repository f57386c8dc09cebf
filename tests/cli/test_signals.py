"""Ctrl-C and SIGTERM, sent to processes that train: what is saved, what is said, and the exit code."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest
import warm_python

pytestmark = pytest.mark.slow

OWN_CODE = """
import itertools
import pathlib
import time
import tensorflow as tf
import tf_keras as keras

def data(examples):
    spec = tf.TensorSpec([1, 1])
    return tf.data.Dataset.from_generator(examples, output_signature=(spec, spec))

def train_input_fn():
    return data(lambda: itertools.repeat(([[1.0]], [[2.0]])))

def waiting_input_fn():
    def examples():
        pathlib.Path("waiting").touch()
        while True:
            time.sleep(1)
        yield

    return data(examples)

def eval_input_fn():
    return train_input_fn().take(3)

def endless_eval_input_fn():
    def examples():
        pathlib.Path("evaluating").touch()
        yield from itertools.repeat(([[1.0]], [[2.0]]))

    return data(examples)

def build():
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False, input_shape=(1,))])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model
"""
COMMAND = ["-m", "estimator_train"]
LIMIT = 120  # seconds
ERRORS = "errors.log"


@pytest.fixture
def start(tmp_path):
    """Starts a training of 10 million steps in the folder `run`; returns its process."""
    (tmp_path / "own.py").write_text(OWN_CODE)
    processes = []

    def start(*flags, train="train_input_fn", evaluate="eval_input_fn"):
        own = ["--input-fn", f"own.py:{train}", "--eval-input-fn", f"own.py:{evaluate}", "--model", "own.py:build"]
        command = [*COMMAND, *own, "--model-dir", "run", "--max-steps", "10000000", *flags]
        processes.append(warm_python.Popen(command, cwd=tmp_path, stderr=tmp_path / ERRORS))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def errors(tmp_path):
    """Gives what the process has written on standard error."""
    return (tmp_path / ERRORS).read_text


def wait_until(process, is_so, errors):
    deadline = time.monotonic() + LIMIT
    while not is_so():
        assert process.poll() is None, errors()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for_file(process, folder, pattern, errors):
    wait_until(process, lambda: list(folder.glob(pattern)), errors)


def test_ctrl_c_saves_a_checkpoint_and_says_the_command_that_goes_on(start, errors, tmp_path):
    process = start("--save-checkpoints-steps", "20", "--steps-per-loop", "5")
    wait_for_file(process, tmp_path, "run/model.ckpt-20.index", errors)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 130
    assert "Traceback" not in errors()
    pattern = r"stopped by SIGINT with run/model\.ckpt-(\d+) saved; go on with: estimator_train (.*)$"
    said = re.search(pattern, errors(), re.MULTILINE)
    step, arguments = int(said.group(1)), shlex.split(said.group(2))
    assert (tmp_path / "run" / f"model.ckpt-{step}.index").exists()

    command = [*COMMAND, *arguments, "--max-steps", str(step + 3)]
    result = warm_python.run(command, tmp_path, cwd=tmp_path, timeout=LIMIT)
    assert result.returncode == 0, result.stderr
    assert f"run, going on from model.ckpt-{step}" in result.stdout
    assert "trained 3 steps" in result.stdout and f"evaluated run/model.ckpt-{step + 3}: loss" in result.stdout


def test_sigterm_ends_an_evaluation_on_the_way_too(start, errors, tmp_path):
    process = start("--evaluate-every", "4", evaluate="endless_eval_input_fn")
    wait_for_file(process, tmp_path, "evaluating", errors)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # as it comes to a process and to its group
    assert process.wait(LIMIT) == 143
    assert "Traceback" not in errors()
    assert "stopped by SIGTERM with run/model.ckpt-4 saved; go on with" in errors()
    assert not list(tmp_path.glob("run/eval/events*")), "half an evaluation was written"


def test_a_second_ctrl_c_ends_a_step_that_waits(start, errors, tmp_path):
    process = start(train="waiting_input_fn")
    wait_for_file(process, tmp_path, "waiting", errors)
    process.send_signal(signal.SIGINT)
    wait_until(process, lambda: "SIGINT: stopping; Ctrl-C now stops at once" in errors(), errors)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=LIMIT) == 130
    assert "saved" not in errors()


def test_handlers_are_given_back(command, own_flags, tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    assert command(*own_flags, "--model-dir", tmp_path / "run", "--max-steps", "1")[0] == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert signal.set_wakeup_fd(wakeup) == wakeup


def test_ctrl_c_before_training_is_one_line(scans, tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise KeyboardInterrupt")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, *COMMAND, "--dataset", "images", "--data-dir", scans, "--quiet"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 130
    assert result.stderr.strip() == "estimator_train: interrupted"
