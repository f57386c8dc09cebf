"""estimator_train launch: several processes with their TF_CONFIG, which end together."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import pytest
import warm_python

from estimator_train.app.cli.commands.launch import free_addresses
from estimator_train.app.cli.commands.launch import launch as launch_command

ROOT = Path(__file__).parents[4]


# Replaces TensorFlow in tests that do not need it. It has an estimator, so install does not change it.
TENSORFLOW = "import logging\n__version__, estimator, get_logger = '2.15', object(), logging.getLogger\n"


def launch(*arguments, folder=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "estimator_train", "launch", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=120,
    )


class Task(warm_python.Popen):
    """A process as `launch` starts it, but with TensorFlow imported already; its output is piped."""

    def __init__(self, arguments, env, **_):
        pipe = Path(tempfile.mkdtemp()) / "pipe"
        os.mkfifo(pipe)
        super().__init__(arguments[1:], env=env, stdout=pipe, stderr=pipe)
        self.stdout = pipe.open(errors="replace")


@pytest.fixture
def warm_launch(command, monkeypatch):
    """Runs launch in this process; the processes that it starts are spared the import of TensorFlow."""
    module = sys.modules[launch_command.callback.__module__]
    started = types.SimpleNamespace(**vars(subprocess) | {"Popen": Task})
    monkeypatch.setattr(module, "subprocess", started)
    handler = signal.getsignal(signal.SIGTERM)
    yield lambda *arguments: subprocess.CompletedProcess(arguments, *command("launch", *arguments))
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def script(tmp_path):
    """Writes a script of these lines, in a folder where it finds no TensorFlow."""

    def write(text):
        (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
        path = tmp_path / "script.py"
        path.write_text(text)
        return path

    return write


BRIGHTNESS = """
import tf_keras as keras

def build(image_size, num_classes):
    layers = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(num_classes, "softmax")]
    model = keras.Sequential([keras.Input((*image_size, 3)), *layers])
    model.compile("sgd", "categorical_crossentropy", ["accuracy"])
    return model
"""


@pytest.fixture
def small(scans, tmp_path):
    """Flags of a training on `scans` that is traced in little time."""
    (tmp_path / "own.py").write_text(BRIGHTNESS)
    flags = ["--dataset", "images", "--data-dir", scans, "--model", tmp_path / "own.py:build", "--image-size", 16]
    return [*flags, "--batch-size", 2, "--model-dir", tmp_path / "run"]


@pytest.mark.slow
def test_a_cluster_with_a_parameter_server_trains_and_ends(warm_launch, tmp_path):
    train = ROOT / "tests" / "data" / "cluster" / "train.py"
    done = warm_launch("--workers", 1, "--ps", 1, "--", "run", train, tmp_path / "run", 60, 0.01)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("chief 0", "ps 0"):
        assert f"\n[{name}] " in done.stdout
    assert (tmp_path / "run" / "checkpoint").exists()


@pytest.mark.slow
def test_the_command_trains_in_step_and_an_evaluator_evaluates_on_the_way(warm_launch, small, tmp_path):
    done = warm_launch("--workers", 2, "--evaluator", "--", *small, "--max-steps", 6, "--evaluate-every", 3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[chief 0] batch        2 images on each of 2 replicas: 4 a step" in done.stdout
    assert "[chief 0] trained 6 steps" in done.stdout
    assert "[worker 0] trained" not in done.stdout and "[worker 0] step" not in done.stdout
    assert "tasks have crashed" not in done.stdout  # the worker waits for the chief's evaluation and report
    last = "evaluated " + str(tmp_path / "run" / "model.ckpt-6: ")
    (metrics,) = [line.partition(last)[2] for line in done.stdout.splitlines() if f"[chief 0] {last}" in line]
    evaluations = [json.loads(line) for line in (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()]
    assert {evaluation["step"] for evaluation in evaluations} >= {6}
    for evaluation in evaluations:
        if evaluation["step"] == 6:  # the evaluator's and the chief's
            assert f"loss {evaluation['metrics']['loss']:.4f}" in metrics


def test_replicas_and_parameter_servers_are_refused_in_a_launched_cluster(command, monkeypatch):
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    code, _, err = command("--replicas", 2)
    assert code == 2 and "--replicas is for one process" in err
    cluster["ps"] = ["127.0.0.1:3"]
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    code, _, err = command()
    assert code == 2 and "parameter servers, which need a model_fn" in err
    monkeypatch.setenv("TF_CONFIG", "{")
    code, _, err = command()
    assert code == 2 and "TF_CONFIG is not valid JSON" in err


def test_a_task_outside_its_cluster_is_refused_before_anything_runs(command, monkeypatch):
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}}))
    code, out, err = command("--dry-run")
    assert code == 2 and not out and "worker 1 of TF_CONFIG's task is not in its cluster" in err


@pytest.mark.slow
def test_the_first_failure_stops_the_others_and_is_the_exit_code(script, tmp_path):
    path = script(
        "import json, os, pathlib, sys, time\n"
        "task = json.loads(os.environ['TF_CONFIG'])['task']\n"
        "print('here is', task['type'], sys.argv[1:], flush=True)\n"
        "here = pathlib.Path(__file__).with_name('here')\n"
        "if task['type'] == 'chief':\n"
        "    here.touch()\n"
        "    time.sleep(100)\n"
        "while not here.exists():\n"
        "    time.sleep(0.1)\n"
        "sys.exit(7)\n"
    )
    done = launch("--workers", 2, "--logs", "logs", "--", "run", path, "--its", "own", folder=tmp_path)
    assert done.returncode == 7
    for task in ("chief", "worker"):
        log = (tmp_path / "logs" / f"{task}-0.log").read_text()
        assert f"here is {task} ['--its', 'own']\n" in log and "[" not in log.partition("here is")[0]
    assert "[worker 0] here is worker ['--its', 'own']" in done.stdout
    assert "worker 0 failed with exit code 7; stopping the others" in done.stderr


def test_no_other_program_is_given_the_port_of_a_task_before_it_listens():
    addresses = free_addresses(20)
    ports = {int(address.removeprefix("127.0.0.1:")) for address in addresses}
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        assert len(ports) == 20 and max(ports) < min(32768, other.getsockname()[1])


def test_a_port_in_use_is_left_out(monkeypatch):
    (free,) = free_addresses(1)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        ports = [other.getsockname()[1], int(free.removeprefix("127.0.0.1:"))]
        monkeypatch.setattr(sys.modules[free_addresses.__module__], "_PORTS", ports)
        assert free_addresses(1) == [free]


@pytest.mark.slow
def test_a_terminated_worker_ends_all_and_training_is_not_marked_finished(small, tmp_path):
    cluster = dict(zip(("chief", "worker"), ([address] for address in free_addresses(2)), strict=True))
    flags = [*small, "--max-steps", 10**6, "--save-checkpoints-steps", 10]
    processes = []
    for job in cluster:
        environment = os.environ | {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": job, "index": 0}})}
        log = tmp_path / job
        command = ["-m", "estimator_train", *flags]
        processes.append(warm_python.Popen(command, env=environment, stdout=log, stderr=log, cwd=ROOT))
    try:
        end = time.monotonic() + 120
        while not list((tmp_path / "run").glob("model.ckpt-[1-9]*.index")):
            assert time.monotonic() < end, (tmp_path / "chief").read_text()
            time.sleep(0.1)
        processes[1].terminate()
        assert [process.wait(120) for process in processes] == [143, 143], (tmp_path / "chief").read_text()
    finally:
        for process in processes:
            process.kill()
    assert "stopped by SIGTERM with" in (tmp_path / "chief").read_text()
    assert (tmp_path / "run" / "ended" / "chief").read_text().split()[0] == "failed"


@pytest.fixture
def launched(script, tmp_path):
    """Starts a launch of two tasks that wait; gives its process and the numbers of theirs."""
    path = script(
        f"import os, pathlib, time\npathlib.Path({str(tmp_path)!r}, f'pid-{{os.getpid()}}').touch()\ntime.sleep(100)\n"
    )
    command = [sys.executable, "-m", "estimator_train", "launch", "--workers", "2", "--", "run", str(path)]
    process = subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})
    end = time.monotonic() + 120
    while len(pids := [int(file.name[4:]) for file in tmp_path.glob("pid-*")]) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    return process, pids


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_launch_that_is_terminated_stops_its_processes(number, code, launched):
    process, pids = launched
    process.send_signal(number)
    assert process.wait(60) == code
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_a_launch_that_is_killed_takes_its_processes_along(launched):
    process, pids = launched
    process.kill()
    process.wait()
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_text() for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert len(pids) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "is_done"), [(0.2, False), (20, True)])
def test_stopped_tasks_have_the_grace_period_to_save(seconds, is_done, script, tmp_path):
    path = script(
        "import json, os, pathlib, signal, sys, time\n"
        "def save(*_):\n    time.sleep(1)\n    pathlib.Path('saved').touch()\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "if json.loads(os.environ['TF_CONFIG'])['task']['type'] == 'chief':\n"
        "    pathlib.Path('ready').touch()\n    time.sleep(100)\n"
        "while not os.path.exists('ready'):\n    time.sleep(0.1)\n"
        "sys.exit(7)\n"
    )
    assert launch("--grace-period", seconds, "--", "run", path, folder=tmp_path).returncode == 7
    assert (tmp_path / "saved").exists() == is_done


@pytest.mark.parametrize("arguments", [["--evaluate-every", 5], ["train", "--evaluate-every=5"]])
def test_evaluations_on_the_way_need_an_evaluator(command, monkeypatch, arguments):
    monkeypatch.setattr(sys.modules[launch_command.callback.__module__], "_start", None)
    code, _, errors = command("launch", "--workers", 2, "--", *arguments)
    assert code == 2 and "need a task of type evaluator; add --evaluator in front of the --, or leave out" in errors


def test_nothing_to_start_is_an_error():
    done = launch("--workers", 2)
    assert done.returncode == 2
    assert "Missing argument 'ARGUMENTS...'" in done.stderr
