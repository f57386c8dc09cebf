"""Ctrl-C, SIGTERM and SIGHUP in every phase of a command: what is saved, what is said, and the exit code."""

import contextlib
import itertools
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
import tensorflow as tf
import warm_python

from estimator_train import loggers
from estimator_train._engine.keras.model import KerasModel
from estimator_train.app.running import prediction, reporting
from estimator_train.app.running.signals import StopOnSignal, Stopped
from estimator_train.app.running.termination import raising_signals
from estimator_train.estimator import Estimator

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

def seven_examples():
    yield from [([[1.0]], [[2.0]])] * 7
    yield from hanging()

def hanging():
    pathlib.Path("waiting").touch()
    time.sleep(600)
    yield

def hanging_input_fn():
    return data(seven_examples)

def hanging_eval_input_fn():
    return data(hanging)

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
    """Starts a training of 10 million steps in `run` in a folder; returns its process."""
    processes = []

    def start(*flags, train="train_input_fn", evaluate="eval_input_fn", folder=tmp_path, code=OWN_CODE):
        folder.mkdir(exist_ok=True)
        (folder / "own.py").write_text(code)
        own = ["--input-fn", f"own.py:{train}", "--eval-input-fn", f"own.py:{evaluate}", "--model", "own.py:build"]
        command = [*COMMAND, *own, "--model-dir", "run", "--max-steps", "10000000", *flags]
        processes.append(warm_python.Popen(command, cwd=folder, stderr=folder / ERRORS))
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


def test_ctrl_c_saves_a_checkpoint_and_prints_the_command_that_resumes(start, errors, tmp_path):
    process = start("--save-checkpoints-steps", "20", "--steps-per-loop", "5")
    wait_for_file(process, tmp_path, "run/model.ckpt-[1-9]*.index", errors)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 130
    assert "Traceback" not in errors()
    pattern = r"stopped by SIGINT with run/model\.ckpt-(\d+) saved; continue with: estimator_train (.*)$"
    said = re.search(pattern, errors(), re.MULTILINE)
    step, arguments = int(said.group(1)), shlex.split(said.group(2))
    assert (tmp_path / "run" / f"model.ckpt-{step}.index").exists()

    command = [*COMMAND, *arguments, "--max-steps", str(step + 3)]
    result = warm_python.run(command, tmp_path, cwd=tmp_path, timeout=LIMIT)
    assert result.returncode == 0, result.stderr
    assert f"run, continuing from model.ckpt-{step}" in result.stdout
    assert "trained 3 steps" in result.stdout and f"evaluated run/model.ckpt-{step + 3}: loss" in result.stdout


def test_sigterm_ends_an_evaluation_on_the_way_too(start, errors, tmp_path):
    process = start("--evaluate-every", "4", evaluate="endless_eval_input_fn")
    wait_for_file(process, tmp_path, "evaluating", errors)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # as it comes to a process and to its group
    assert process.wait(LIMIT) == 143
    assert "Traceback" not in errors()
    assert "stopped by SIGTERM with run/model.ckpt-4 saved; continue with" in errors()
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


HANGING = {  # flags -> the steps that a training does before its input hangs
    (): 7,
    ("--steps-per-loop", "4"): 7,
    ("--replicas", "2"): 2,
    ("--evaluate-every", "4"): 4,
}


def test_sigterm_while_the_input_hangs_saves_the_steps_done_within_seconds(start, tmp_path):
    """All at once, because each of them waits."""
    folders = [tmp_path / "_".join(["run", *flags]) for flags in HANGING]
    processes = []
    for folder, flags in zip(folders, HANGING, strict=True):
        inputs = ("train_input_fn", "hanging_eval_input_fn") if "--evaluate-every" in flags else ("hanging_input_fn",)
        often = [*flags, "--save-checkpoints-steps", "1000000"]
        processes.append(start(*often, train=inputs[0], evaluate=inputs[-1], folder=folder))
    for folder, process in zip(folders, processes, strict=True):
        wait_for_file(process, folder, "waiting", (folder / ERRORS).read_text)
    time.sleep(1)  # the steps end
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for folder, process, steps in zip(folders, processes, HANGING.values(), strict=True):
        errors = (folder / ERRORS).read_text
        assert process.wait(timeout=LIMIT) == 143, errors()
        assert f"stopped by SIGTERM with run/model.ckpt-{steps} saved; continue with: " in errors()
        assert errors().count("estimator_train: ") == 2 and "Traceback" not in errors()
        assert not list(folder.glob("run/eval/events*"))
        first, last = (weight_at(folder / "run" / f"model.ckpt-{step}") for step in (0, steps))
        assert abs((2 - last) - (2 - first) * 0.9**steps) < 1e-5


def test_sigterm_while_the_evaluation_of_a_complete_training_hangs_ends_it(start, errors, tmp_path):
    assert start("--max-steps", "3").wait(LIMIT) == 0
    process = start("--max-steps", "3", "--resume", code=f"{OWN_CODE}\neval_input_fn = hanging_eval_input_fn\n")
    wait_for_file(process, tmp_path, "waiting", errors)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=LIMIT) == 143
    assert "stopped by SIGTERM with run/model.ckpt-3 saved; continue with: " in errors()
    assert "Traceback" not in errors()


def weight_at(checkpoint):
    (name,) = (name for name, _ in tf.train.list_variables(str(checkpoint)) if "kernel/.ATTR" in name)
    return float(tf.train.load_variable(str(checkpoint), name).squeeze())


def test_a_second_sigterm_seconds_later_ends_a_step_that_waits(start, errors, tmp_path):
    process = start(train="waiting_input_fn")
    wait_for_file(process, tmp_path, "waiting", errors)
    process.send_signal(signal.SIGTERM)
    wait_until(process, lambda: "SIGTERM: stopping" in errors(), errors)
    time.sleep(2.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=LIMIT) == 143


ON_TERMINAL = """
import os, sys
from estimator_train.app.cli import main

os.setsid()
terminal = os.open(sys.argv[1], os.O_RDWR)  # the terminal of the new session, which gets its SIGHUP
for descriptor in (1, 2):
    os.dup2(terminal, descriptor)
sys.argv = ["estimator_train", *sys.argv[2:]]
main()
"""


def test_a_terminal_that_hangs_up_saves_a_checkpoint_and_stops(tmp_path):
    (tmp_path / "own.py").write_text(OWN_CODE)
    (tmp_path / "on_terminal.py").write_text(ON_TERMINAL)
    ours, its = pty.openpty()
    flags = [
        "--input-fn",
        "own.py:train_input_fn",
        "--eval-input-fn",
        "own.py:eval_input_fn",
        "--model",
        "own.py:build",
    ]
    program = [tmp_path / "on_terminal.py", os.ttyname(its), *flags, "--model-dir", "run", "--max-steps", "10000000"]
    process = warm_python.Popen(program, cwd=tmp_path)
    output = []

    def has_begun():
        if select.select([ours], [], [], 0)[0]:
            output.append(os.read(ours, 10_000))
        return (tmp_path / "run" / "model.ckpt-0.index").exists()

    try:
        wait_until(process, has_begun, lambda: b"".join(output))
        os.close(ours)
        assert process.wait(LIMIT) == 129
    finally:
        process.kill()
        process.wait()
        os.close(its)
    steps = [int(path.stem.rpartition("-")[2]) for path in tmp_path.glob("run/model.ckpt-*.index")]
    assert max(steps) > 0


def test_sighup_remains_ignored_under_nohup():
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopOnSignal() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.received is None
    finally:
        signal.signal(signal.SIGHUP, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_at_once_before_step_1_and_later_after_the_step(number):
    with raising_signals(), contextlib.suppress(Stopped), StopOnSignal() as stop:
        os.kill(os.getpid(), number)
        time.sleep(60)
        pytest.fail("it was not stopped")
    assert stop.received == number
    with raising_signals(), StopOnSignal() as stop:
        stop.begin()
        os.kill(os.getpid(), number)
        time.sleep(0.01)
    assert stop.received == number


def test_a_signal_that_the_program_handles_itself_stops_no_training(monkeypatch):
    faults = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    handler = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        with StopOnSignal() as stop:
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert (faults, stop.received) == ([], None)


def test_a_second_sigterm_after_training_does_not_hide_how_to_resume():
    with raising_signals():
        with contextlib.suppress(Stopped), StopOnSignal() as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop.received == signal.SIGTERM


SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

# (phase of a command, a function that runs in it, the message for each signal)
STOPPED = r"stopped by {name} with (\S*/)?model\.ckpt-\d+ saved; continue with: estimator_train .*"
PHASES = {
    "caching": (KerasModel, "prepare", r"stopped by {name} before the first checkpoint; start again with: .* --resume"),
    "checkpoint": (tf.train.CheckpointManager, "save", STOPPED),
    "evaluation": (Estimator, "evaluate", STOPPED),
    "report": (reporting.Reporter, "write", STOPPED),
}
ENDED = {signal.SIGINT: "interrupted", signal.SIGTERM: "stopped by SIGTERM", signal.SIGHUP: "stopped by SIGHUP"}


def send_in(monkeypatch, owner, name, number):
    """Sends the signal when the function is first called."""
    function = getattr(owner, name)

    def send_and_call(*arguments, **options):
        monkeypatch.setattr(owner, name, function)
        os.kill(os.getpid(), number)
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, send_and_call)


# Signals differ only in one line and the exit code, so each phase is tested with one of them.
@pytest.mark.parametrize(("phase", "number"), [*zip(PHASES, itertools.cycle(SIGNALS), strict=False)])
def test_a_signal_in_each_phase_of_a_training_is_one_line(phase, number, command, own_flags, monkeypatch, tmp_path):
    owner, name, said = PHASES[phase]
    send_in(monkeypatch, owner, name, number)
    code, _, errors = command(*own_flags, "--model-dir", "run", "--max-steps", "3", "--quiet")
    assert code == SIGNALS[number]
    stopping, stopped = errors.splitlines()
    assert stopping == f"estimator_train: {number.name}: stopping; Ctrl-C now stops at once"
    assert re.fullmatch(f"estimator_train: {said.format(name=number.name)}", stopped)
    assert not (tmp_path / "run" / "training.json").exists()


INTERRUPTING = """
import os, pathlib, signal, time
import tf_keras as keras

class Interrupts(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == 6:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)  # until the thread that notices it has run

    def on_train_end(self, logs=None):
        pathlib.Path("ended").touch()

def callbacks():
    return [Interrupts(), keras.callbacks.EarlyStopping("loss", patience=99, restore_best_weights=True)]
"""


def test_a_signal_leaves_the_rest_of_an_epoch_to_the_run_that_resumes(command, own_flags, tmp_path):
    (tmp_path / "interrupting.py").write_text(INTERRUPTING)
    flags = ["--model-dir", "run", "--max-steps", "1000", "--evaluate-every", "4", "--quiet"]
    code, _, errors = command(*own_flags, *flags, "--callbacks", "interrupting.py:callbacks")
    assert code == 130, errors
    assert (tmp_path / "run" / "timing.json").exists()
    assert not (tmp_path / "ended").exists()
    step = int(re.search(r"model\.ckpt-(\d+) saved", errors).group(1))
    lines = (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()
    evaluated = [json.loads(line)["step"] for line in lines]
    assert evaluated == list(range(4, step + 1, 4))


@pytest.mark.parametrize("name", ["csv", "mlflow", "wandb"])
def test_ctrl_c_while_a_logger_opens_is_one_line(name, command, own_flags, monkeypatch):
    def open_logger(*arguments):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        except Exception as error:  # as MLflow's client does while it waits for its server
            raise ValueError("the logger could not be opened") from error

    monkeypatch.setattr(loggers, "open_logger", open_logger)
    monkeypatch.setattr(loggers, "check_installed", lambda name: None)
    code, _, errors = command(*own_flags, "--model-dir", "run", "--max-steps", "3", "--quiet", "--log", name)
    assert code == 130
    assert errors.splitlines()[1:] == ["estimator_train: stopped by SIGINT before the training began"]


def test_a_signal_in_a_command_that_does_not_train_is_one_line(command, trained, scans, monkeypatch, tmp_path):
    shutil.copytree(trained.model_dir, "run")
    commands = {
        ("evaluate",): (KerasModel, "prepare"),
        ("predict", scans): (prediction, "decode_files"),
        ("export", "--format", "saved_model", "--out", "out"): (KerasModel, "export"),
        ("report",): (reporting.Reporter, "write"),
    }
    for (arguments, place), number in zip(commands.items(), itertools.cycle(SIGNALS), strict=False):
        with monkeypatch.context() as patch:
            send_in(patch, *place, number)
            code, _, errors = command(*arguments, "--model-dir", "run")
        assert (code, errors.strip()) == (SIGNALS[number], f"estimator_train: {ENDED[number]}"), arguments
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_handlers_are_given_back(command, own_flags, tmp_path):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    assert command(*own_flags, "--model-dir", tmp_path / "run", "--max-steps", "1")[0] == 0
    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.set_wakeup_fd(wakeup) == wakeup


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_training_is_one_line(number, scans, tmp_path):
    (tmp_path / "tensorflow.py").write_text(f"import os; os.kill(os.getpid(), {int(number)})")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, *COMMAND, "--dataset", "images", "--data-dir", scans, "--quiet"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stderr.strip()) == (SIGNALS[number], f"estimator_train: {ENDED[number]}")
