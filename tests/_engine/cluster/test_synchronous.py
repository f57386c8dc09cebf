"""Processes that train a Keras model synchronously: as one process with as many replicas, and all or none of them."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import warm_python

import estimator_train as et
from estimator_train import distribution
from estimator_train._engine.cluster.synchronous import LostWorkerError, StopTogetherHook
from estimator_train._engine.keras.dataset import distributed_dataset
from estimator_train.app.cli.commands.launch import free_addresses

SCRIPT = Path(__file__).parents[2] / "data" / "multi_worker" / "train.py"
BOUND_SECS = 150


@pytest.fixture
def start(tmp_path):
    """Starts tasks of a cluster of a chief and workers, or a process on its own; what is left of them is killed."""
    processes = []

    def start(*tasks, model_dir="run", workers=1, under=(), **settings):
        chief, *addresses = free_addresses(1 + workers)
        cluster = {"chief": [chief], "worker": addresses}
        started = []
        for task in tasks:
            environment = dict(os.environ)
            if task != "alone":
                kind, _, index = task.partition(" ")
                task_of_cluster = {"type": kind, "index": int(index or 0)}
                environment["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task_of_cluster})
                settings["strategy"] = "multi_worker"
            folder = tmp_path / (model_dir if isinstance(model_dir, str) else model_dir[task])
            log = tmp_path / f"{len(processes)}-{task}.log"
            command = [*under, SCRIPT, folder, json.dumps(settings)]
            started.append(warm_python.Popen(command, env=environment, stdout=log, stderr=log))
            started[-1].log = log
            processes.append(started[-1])
        return started

    yield start
    for process in processes:
        process.kill()
        process.wait()
        print(f"--- {process.log.name}\n{process.log.read_text()[-3000:]}")  # shown where the test fails


def exit_codes(processes, timeout=BOUND_SECS):
    return [process.wait(timeout) for process in processes]


def wait_for(path, timeout):
    end = time.monotonic() + timeout
    while not path.exists():
        assert time.monotonic() < end, f"no {path} after {timeout} s"
        time.sleep(0.1)


def saved_steps(process):
    """Returns the steps at which a process saved, and the directory of the last one."""
    lines = [line.split() for line in process.log.read_text().splitlines() if "Saving checkpoints for" in line]
    steps = [int(line[line.index("for") + 1]) for line in lines]
    return sorted(set(steps)), os.path.dirname(lines[-1][-1])


def checkpoint(folder):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(folder))
    names = [name for name in reader.get_variable_to_shape_map() if "/.ATTRIBUTES/" in name]
    return {name: reader.get_tensor(name) for name in names if "save_counter" not in name}


@pytest.mark.slow
def test_workers_of_two_devices_and_an_evaluator_match_one_process_of_four(start, tmp_path):
    settings = {"max_steps": 8, "config": {"steps_per_loop": 3, "save_checkpoints_steps": 4}}
    chief, worker, evaluator = start("chief", "worker", "evaluator", evaluate=True, devices=2, **settings)
    (alone,) = start("alone", model_dir="alone", strategy="mirrored", devices=4, **settings)
    assert exit_codes([chief, worker, evaluator, alone]) == [0] * 4
    expected, trained = checkpoint(tmp_path / "alone"), checkpoint(tmp_path / "run")
    assert expected.keys() == trained.keys() and len(expected) > 20  # BatchNorm's statistics and Adam's slots are there
    for name, value in expected.items():
        np.testing.assert_allclose(trained[name], value, atol=1e-5, err_msg=name)
    assert len(list((tmp_path / "run").glob("events*"))) == 1  # only from the chief
    assert saved_steps(chief) == ([0, 4, 8], str(tmp_path / "run"))
    steps, folder = saved_steps(worker)
    assert steps == [0, 4, 8] and not os.path.exists(folder)
    assert "Saving dict for global step 8" in evaluator.log.read_text()
    line = "by the task of type evaluator, if there is one"
    assert [line in process.log.read_text() for process in (chief, worker)] == [True, False]


@pytest.mark.slow
def test_xla_trains_two_workers_as_replicas_without_it(start, tmp_path):
    config = {"accumulate_steps": 2}
    chief, worker = start("chief", "worker", config={"jit_compile": True, **config})
    (alone,) = start("alone", model_dir="alone", strategy="mirrored", config=config)
    assert exit_codes([chief, worker, alone]) == [0] * 3
    expected, trained = checkpoint(tmp_path / "alone"), checkpoint(tmp_path / "run")
    for name, value in expected.items():
        np.testing.assert_allclose(trained[name], value, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_all_stop_where_one_asks_to_and_save_when_the_chiefs_time_is_up(start):
    config = {"save_checkpoints_secs": 1}
    settings = {"max_steps": 500, "stop_at": 30, "secs_a_step": 0.1, "devices": 2}
    chief, worker = start("chief", "worker", config=config, **settings)
    assert exit_codes([chief, worker]) == [0, 0]
    steps, _ = saved_steps(chief)
    assert saved_steps(worker)[0] == steps
    assert steps[0] == 0 and steps[-1] == 30 and len(steps) > 2


@pytest.mark.slow
def test_training_ends_where_the_first_worker_has_no_more_data(start):
    settings = {"batches": [6, 10], "own_step": True, "config": {"steps_per_loop": 4}}
    chief, worker = start("chief", "worker", max_steps=None, devices=2, **settings)
    assert exit_codes([chief, worker]) == [0, 0]
    assert saved_steps(chief)[0] == saved_steps(worker)[0] == [0, 3]
    losses = [re.search(r"Loss for final step: ([\d.]+)", process.log.read_text())[1] for process in (chief, worker)]
    assert losses[0] == losses[1]  # a train_step's values are summed over all workers


@pytest.mark.slow
def test_where_one_worker_ends_by_sigterm_all_end_and_resume(start, tmp_path):
    tasks = ["chief", "worker 0", "worker 1"]
    settings = {"max_steps": 40, "workers": 2, "config": {"save_checkpoints_steps": 10, "resume_input": True}}
    (evaluator,) = start("evaluator", **settings)
    *survivors, worker = start(*tasks, secs_a_step=0.1, **settings)
    wait_for(tmp_path / "run" / "model.ckpt-20.index", BOUND_SECS)
    worker.terminate()
    assert exit_codes([worker, *survivors]) == [-signal.SIGTERM, 1, 1]
    logs = [each.log.read_text() for each in survivors]
    assert all("LostWorkerError: TF_CONFIG's cluster has lost" in log for log in logs)
    assert any("TF_CONFIG's cluster has lost worker 1. Start that task and this one again" in log for log in logs)
    again = start(*tasks, evaluate=True, **settings)
    (alone,) = start("alone", model_dir="alone", strategy="mirrored", devices=3, **settings)
    assert exit_codes([*again, alone, evaluator]) == [0] * 5
    steps, _ = saved_steps(again[0])
    assert steps[0] >= 20 and steps[-1] == 40
    assert all(saved_steps(process)[0] == steps for process in again)
    expected, trained = checkpoint(tmp_path / "alone"), checkpoint(tmp_path / "run")
    for name in expected.keys() - {"estimator_input_seed/.ATTRIBUTES/VARIABLE_VALUE"}:
        np.testing.assert_allclose(trained[name], expected[name], atol=1e-4, err_msg=name)
    assert "Saving dict for global step 40" in evaluator.log.read_text()


@pytest.mark.slow
def test_three_killed_workers_continue_as_two_which_sigterm_to_one_saves(start, tmp_path):
    settings = {"max_steps": 10**6, "secs_a_step": 0.02, "config": {"save_checkpoints_steps": 10, "resume_input": True}}
    killed = start("chief", "worker 0", "worker 1", workers=2, **settings)
    wait_for(tmp_path / "run" / "model.ckpt-10.index", BOUND_SECS)
    for process in killed:
        process.kill()
        process.wait()
    first = int(tf.train.latest_checkpoint(str(tmp_path / "run")).rpartition("-")[2])
    assert "Each step takes 24 examples over 3 replicas" in killed[0].log.read_text()

    settings["config"]["save_checkpoints_steps"] = 10**6
    chief, worker = start("chief", "worker", under=("-m", "estimator_train", "run"), **settings)
    end = time.monotonic() + BOUND_SECS
    while not worker.log.exists() or "Each step takes 16 examples over 2 replicas" not in worker.log.read_text():
        assert time.monotonic() < end and worker.poll() is None
        time.sleep(0.1)
    worker.terminate()
    assert exit_codes([worker, chief]) == [143, 143]
    steps, _ = saved_steps(chief)
    assert saved_steps(worker)[0] == steps and steps[0] == first and steps[-1] > first
    assert tf.train.latest_checkpoint(str(tmp_path / "run")).endswith(f"-{steps[-1]}")


@pytest.mark.slow
def test_processes_that_see_different_model_dirs_fail_with_that_reason(start, tmp_path):
    (alone,) = start("alone", model_dir="chief's", max_steps=2)
    assert exit_codes([alone]) == [0]
    before = checkpoint(tmp_path / "chief's")
    folders = {"chief": "chief's", "worker": "worker's"}
    processes = start("chief", "worker", model_dir=folders)
    assert exit_codes(processes) == [1, 1]
    for process in processes:
        assert "model_dir must be a directory that they share" in process.log.read_text()
    after = checkpoint(tmp_path / "chief's")
    assert all(np.array_equal(value, after[name]) for name, value in before.items())


def test_a_worker_that_ends_as_soon_as_it_may_is_not_lost():
    waits = []

    def sums(*values):
        waits.append(values)
        if len(waits) > 1:
            raise LostWorkerError("it has ended before this process has received its last number")
        return [0]

    StopTogetherHook(agreement=None, train_op=None, sums=sums).end(session=None)
    assert len(waits) == 2
    with pytest.raises(LostWorkerError):
        StopTogetherHook(agreement=None, train_op=None, sums=sums).end(session=None)


def test_a_laptop_and_an_evaluator_need_no_cluster(monkeypatch):
    assert isinstance(distribution.multi_worker(), tf.distribute.MultiWorkerMirroredStrategy)
    monkeypatch.setenv("TF_CONFIG", "")  # as a manifest may set it
    assert isinstance(distribution.multi_worker(), tf.distribute.MultiWorkerMirroredStrategy)
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}}))
    assert distribution.multi_worker() is None


@pytest.mark.parametrize(
    ("tf_config", "message"),
    [
        ("{", "TF_CONFIG is not valid JSON"),
        ('{"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 1}}', "worker 1 .*not in its"),
        ('{"cluster": {"worker": ["127.0.0.1:1"]}}', "task needs a type"),
        ('{"cluster": {"worker": 5}}', "worker in TF_CONFIG's cluster must be a list of host:port, got 5"),
        ('{"cluster": {"chief": ["127.0.0.1"]}, "task": {"type": "chief", "index": 0}}', "chief 0 cannot listen at"),
    ],
)
def test_a_wrong_tf_config_fails_before_tensorflow_waits_for_peers(monkeypatch, tf_config, message):
    monkeypatch.setenv("TF_CONFIG", tf_config)
    with pytest.raises(ValueError, match=message):
        distribution.multi_worker()


def test_a_port_in_use_is_named(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        cluster = {"worker": [address, "127.0.0.1:1"]}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
        with pytest.raises(ValueError, match=f"worker 0 cannot listen at {address}: .*in use.*give it a free port"):
            distribution.multi_worker()


class OfACluster(tf.distribute.MultiWorkerMirroredStrategy):
    """Simulates a cluster whose other processes do not exist."""

    def __init__(self):
        super().__init__()
        self.cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": ["127.0.0.1:1", "127.0.0.1:2"]}), task_type="worker", task_id=0
        )

    cluster_resolver = None


def test_the_first_worker_is_the_chief_where_none_is_named():
    config = et.RunConfig(train_distribute=OfACluster())
    assert (config.is_chief, config.num_worker_replicas, config.task_type) == (True, 2, "worker")


def test_a_worker_without_data_fails_before_the_others_wait_for_it(monkeypatch):
    contexts = [tf.distribute.InputContext(2, index, 2) for index in range(2)]
    monkeypatch.setattr(
        "estimator_train._engine.keras.dataset.distribute",
        lambda strategy, dataset_fn, finish: [dataset_fn(each) for each in contexts],
    )

    def one_file(input_context):
        return tf.data.Dataset.range(1).shard(2, input_context.input_pipeline_id)

    with pytest.raises(ValueError, match="The input_fn has no data for worker 1 of 2"):
        distributed_dataset(None, one_file, None, mode="train")


def test_a_master_is_no_name_for_workers_in_step(monkeypatch):
    cluster = {"master": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    with pytest.raises(ValueError, match="does not support a master; rename it to chief"):
        distribution.multi_worker()


def model_fn(features, labels, mode):
    step = tf.compat.v1.train.get_global_step()
    return et.EstimatorSpec(mode, loss=tf.reduce_mean(features), train_op=step.assign_add(1))


def input_fn():
    return tf.data.Dataset.from_tensors(([1.0], [1.0]))


def test_what_a_cluster_in_step_cannot_do_is_refused(tmp_path):
    config = et.RunConfig(tmp_path, train_distribute=OfACluster(), eval_distribute=OfACluster())
    with pytest.raises(ValueError, match="to train a model_fn on several machines, use parameter servers"):
        et.Estimator(model_fn, config=config).train(input_fn)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[1])])
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(model, config=config)
    with pytest.raises(ValueError, match="a single process evaluates a checkpoint"):
        estimator.evaluate(input_fn)
    saver = et.CheckpointSaverHook(str(tmp_path), save_steps=1)
    with pytest.raises(ValueError, match="a CheckpointSaverHook in hooks saves on its own"):
        estimator.train(input_fn, hooks=[saver])
