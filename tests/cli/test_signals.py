"""Ctrl-C and SIGTERM, sent to processes that train: what is saved, what is said, and the exit code."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

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
COMMAND = [sys.executable, "-m", "estimator_train"]
LIMIT = 120  # seconds


@pytest.fixture
def start(tmp_path):
    """Starts a training of 10 million steps in the folder `run`; returns its process."""
    (tmp_path / "own.py").write_text(OWN_CODE)
    processes = []

    def start(*flags, train="train_input_fn", evaluate="eval_input_fn"):
        own = ["--input-fn", f"own.py:{train}", "--eval-input-fn", f"own.py:{evaluate}", "--model", "own.py:build"]
        process = subprocess.Popen(
            [*COMMAND, *own, "--model-dir", "run", "--max-steps", "10000000", *flags],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(process, folder, pattern):
    deadline = time.monotonic() + LIMIT
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_saves_a_checkpoint_and_says_the_command_that_goes_on(start, tmp_path):
    process = start("--save-checkpoints-steps", "20", "--steps-per-loop", "5")
    wait_for(process, tmp_path, "run/model.ckpt-20.index")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "Traceback" not in errors
    pattern = r"stopped by SIGINT with run/model\.ckpt-(\d+) saved; go on with: estimator_train (.*)$"
    said = re.search(pattern, errors, re.MULTILINE)
    step, arguments = int(said.group(1)), shlex.split(said.group(2))
    assert (tmp_path / "run" / f"model.ckpt-{step}.index").exists()

    command = [*COMMAND, *arguments, "--max-steps", str(step + 3)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert result.returncode == 0, result.stderr
    assert f"run, going on from model.ckpt-{step}" in result.stdout
    assert "trained 3 steps" in result.stdout and f"evaluated run/model.ckpt-{step + 3}: loss" in result.stdout


def test_sigterm_ends_an_evaluation_on_the_way_too(start, tmp_path):
    process = start("--evaluate-every", "4", evaluate="endless_eval_input_fn")
    wait_for(process, tmp_path, "evaluating")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # as it comes to a process and to its group
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 143
    assert "Traceback" not in errors
    assert "stopped by SIGTERM with run/model.ckpt-4 saved; go on with" in errors
    assert not list(tmp_path.glob("run/eval/events*")), "half an evaluation was written"


def test_a_second_ctrl_c_ends_a_step_that_waits(start, tmp_path):
    process = start(train="waiting_input_fn")
    wait_for(process, tmp_path, "waiting")
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if "SIGINT: stopping; Ctrl-C now stops at once" in line:
            break
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=LIMIT) == 130
    assert "saved" not in process.stderr.read()


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
    command = [*COMMAND, "--dataset", "images", "--data-dir", scans, "--quiet"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 130
    assert result.stderr.strip() == "estimator_train: interrupted"
