"""One training at a time in a model_dir; what a killed one has left does not count."""

import errno
import json
import os
import re
import socket
import threading
from pathlib import Path

import filelock
import pytest
import warm_python

import estimator_train as et
from estimator_train._engine.host.training_lock import ModelDirInUseError, training_lock

HERE = socket.gethostname()
SINCE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00"

HOLD = """
import pathlib, sys, time
from estimator_train._engine.host.training_lock import training_lock

with training_lock(sys.argv[1]):
    pathlib.Path(sys.argv[1], "held").touch()
    time.sleep(600)
"""


@pytest.fixture
def model_dir(tmp_path):
    return str(tmp_path / "run")


@pytest.fixture
def other_process(model_dir, tmp_path):
    """A process that trains in `model_dir`, as far as the lock can tell."""
    (tmp_path / "hold.py").write_text(HOLD)
    process = warm_python.Popen([tmp_path / "hold.py", model_dir], stderr=tmp_path / "errors.log")
    while not os.path.exists(os.path.join(model_dir, "held")):
        assert process.poll() is None, (tmp_path / "errors.log").read_text()
    yield process
    process.kill()
    process.wait()


def write_holder(model_dir, **holder):
    os.makedirs(model_dir, exist_ok=True)
    with open(os.path.join(model_dir, "training.json"), "w") as file:
        json.dump({"host": HERE, "process": 7, "since": "2024-05-01 10:00:00+00:00"} | holder, file)


def test_a_second_training_is_refused_with_the_process_of_the_first(
    other_process, model_dir, classifier, data, batches
):
    line = f"{model_dir} is in use by a training, process {other_process.pid} on host {HERE} since {SINCE}: "
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=model_dir)
    with pytest.raises(ModelDirInUseError, match=f"^{re.escape(line).replace(re.escape(SINCE), SINCE)}wait for it"):
        estimator.train(batches(data, 48))
    assert estimator.evaluate(batches(data, 48))["global_step"] == 0
    assert len(list(estimator.predict(batches(data, 48)))) == 96


def test_a_killed_training_holds_nothing(other_process, model_dir, warnings):
    other_process.kill()
    other_process.wait()
    assert "training.json" in os.listdir(model_dir)
    with training_lock(model_dir), open(os.path.join(model_dir, "training.json")) as file:
        assert json.load(file)["process"] == os.getpid()
    assert set(os.listdir(model_dir)) == {"held", "training.lock"}
    assert warnings == []


def test_a_second_thread_is_refused_and_the_same_one_is_not(model_dir):
    errors = []

    def train():
        try:
            with training_lock(model_dir):
                pass
        except ModelDirInUseError as error:
            errors.append(str(error))

    with training_lock(model_dir), training_lock(os.path.relpath(model_dir)):
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    assert re.search(f"in another thread of this process, since {SINCE}: wait for it", errors[0])
    train()
    assert len(errors) == 1


@pytest.mark.slow
def test_trainings_of_one_process_follow_each_other(model_dir, classifier, data, batches):
    for _ in range(2):
        estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=model_dir)
        estimator.train(batches(data, 48), steps=1).train(batches(data, 48), steps=1)
    assert estimator.evaluate(batches(data, 48))["global_step"] == 4
    spec = et.EvalSpec(batches(data, 48), start_delay_secs=0, throttle_secs=0)
    metrics, _ = et.train_and_evaluate(estimator, et.TrainSpec(batches(data, 48, epochs=None), max_steps=6), spec)
    assert metrics["global_step"] == 6


def test_another_host_is_named_and_how_to_get_rid_of_its_lock(model_dir):
    with training_lock(model_dir):
        write_holder(model_dir, host="node-7")
        with pytest.raises(ModelDirInUseError) as caught, _as_another_process(model_dir):
            pass
    assert "process 7 on host node-7 since 2024-05-01 10:00:00+00:00: " in str(caught.value)
    assert str(caught.value).endswith(f"if that host is gone, delete {model_dir}/training.lock")


def _as_another_process(model_dir):
    """Acquires the lock in another thread, because this thread could acquire it again."""
    results = []

    def enter():
        try:
            with training_lock(model_dir):
                pass
        except ModelDirInUseError as error:
            results.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    raise results[0]


def test_what_another_host_left_is_a_warning(model_dir, warnings):
    write_holder(model_dir, host="node-7")
    with training_lock(model_dir):
        pass
    (line,) = warnings
    assert "process 7 on host node-7" in line and "was killed, or it is still running" in line


@pytest.mark.parametrize("contents", ["", "[]", '{"host": "x"}'])
def test_a_garbled_file_says_nothing(contents, model_dir, warnings):
    write_holder(model_dir)
    with open(os.path.join(model_dir, "training.json"), "w") as file:
        file.write(contents)
    with training_lock(model_dir):
        pass
    assert warnings == []


def test_an_address_is_not_locked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with training_lock("gs://bucket/run"):
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("number", "warned"), [(errno.ENOLCK, 1), (errno.EINVAL, 1), (errno.EIO, 1), (errno.EROFS, 0)])
def test_a_folder_that_cannot_be_locked_is_trained_in(number, warned, model_dir, warnings, monkeypatch):
    def acquire(self):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(filelock.FileLock, "acquire", acquire)
    with training_lock(model_dir):
        pass
    assert len(warnings) == warned


def test_a_lock_that_is_a_link_leaves_its_target_as_it_was(model_dir, tmp_path):
    os.mkdir(model_dir)
    (tmp_path / "precious").write_text("text")
    os.symlink(tmp_path / "precious", os.path.join(model_dir, "training.lock"))
    with pytest.raises(OSError, match="training.lock"), training_lock(model_dir):
        pass
    assert (tmp_path / "precious").read_text() == "text"


def test_no_filelock_that_follows_links_is_allowed():
    (bound,) = re.findall(r'"filelock>=([\d.]+)"', (Path(__file__).parents[3] / "setup.py").read_text())
    assert tuple(map(int, bound.split("."))) >= (3, 20, 1)  # mends CVE-2025-68146


def test_a_worker_that_is_not_the_chief_asks_for_no_lock(model_dir, classifier, data, batches, monkeypatch):
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=model_dir)
    monkeypatch.setattr(et.RunConfig, "is_chief", False)
    estimator.train(batches(data, 48))
    assert not os.path.exists(os.path.join(model_dir, "training.lock"))
