"""Processes of a TF_CONFIG cluster train together, survive the loss of one, and all end."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf
import warm_python

import estimator_train as et
from estimator_train._engine.cluster import completion, tasks
from estimator_train._engine.graph.model import GraphModel
from estimator_train._engine.model_fn import Start
from estimator_train.app.cli.commands.launch import free_addresses

SCRIPT = Path(__file__).parents[2] / "data" / "cluster" / "train.py"
BOUND_SECS = 120


@pytest.fixture
def start(tmp_path):
    """Starts tasks of one cluster, a chief, two workers and two parameter servers; what is left of them is killed."""
    chief, *workers, ps_0, ps_1 = free_addresses(5)
    cluster = {"chief": [chief], "worker": workers, "ps": [ps_0, ps_1]}
    processes = []

    def start(task_type, index=0, max_steps=100, secs_a_step=0.0, chiefs_last_step=None):
        task = {"type": task_type, "index": index}
        environment = os.environ | {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
        arguments = [tmp_path / "run", max_steps, secs_a_step, *([chiefs_last_step] if chiefs_last_step else [])]
        log = tmp_path / f"{task_type}-{index}.log"
        process = warm_python.Popen([SCRIPT, *arguments], env=environment, stdout=log, stderr=log)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
    for log in sorted(tmp_path.glob("*.log")):  # shown where the test fails
        print(f"--- {log.name}\n{log.read_text()[-3000:]}")


def wait_for(is_so, message):
    end = time.monotonic() + BOUND_SECS
    while not is_so():
        assert time.monotonic() < end, message
        time.sleep(0.2)


def wait_for_step(model_dir, step):
    def is_reached():
        checkpoint = tf.train.latest_checkpoint(str(model_dir))
        return checkpoint is not None and int(checkpoint.rpartition("-")[2]) >= step

    wait_for(is_reached, f"step {step} was not reached in {BOUND_SECS} s")


@pytest.mark.slow
def test_chief_workers_parameter_servers_and_evaluator_complete_and_exit(start, tmp_path):
    tasks = [("ps", 0), ("ps", 1), ("chief", 0), ("worker", 0), ("worker", 1), ("evaluator", 0)]
    # The chief stops early, and so do the others.
    processes = {task: start(*task, max_steps=10**6, secs_a_step=0.01, chiefs_last_step=100) for task in tasks}
    assert {task: process.wait(BOUND_SECS) for task, process in processes.items()} == dict.fromkeys(tasks, 0)
    run = tmp_path / "run"
    assert len(list(run.glob("events*"))) == 1  # only from the chief
    newest = tf.train.latest_checkpoint(str(run))
    assert len(list(run.glob(f"{Path(newest).name}.data-*-of-00002"))) == 2  # each parameter server wrote its own
    log = (tmp_path / "evaluator-0.log").read_text()
    # Workers continue while the chief saves, so a checkpoint may hold a later step than its name says.
    assert re.search(rf"Saving 'checkpoint_path' summary for global step \d+: \S*/{Path(newest).name}\n", log)


@pytest.mark.slow
def test_killed_workers_and_chiefs_rejoin_and_nothing_is_lost(start, tmp_path):
    run = tmp_path / "run"
    arguments = {"max_steps": 1000, "secs_a_step": 0.1}
    servers = [start("ps", index, **arguments) for index in range(2)]
    chief, *workers = [start("chief", **arguments)] + [start("worker", index, **arguments) for index in range(2)]
    wait_for_step(run, 20)
    workers[1].send_signal(signal.SIGKILL)
    wait_for_step(run, 60)  # the others continue
    workers[1] = start("worker", 1, **arguments)
    chief.send_signal(signal.SIGKILL)
    chief.wait()
    before = int(tf.train.latest_checkpoint(str(run)).rpartition("-")[2])
    chief = start("chief", **arguments)
    for log in ("chief-0.log", "worker-1.log"):
        wait_for(lambda log=log: (tmp_path / log).read_text().count("loss = ") > 1, f"{log} tells of no second start")
    (run / "hurry").touch()
    codes = [process.wait(BOUND_SECS) for process in (chief, *workers, *servers)]
    assert codes == [0] * 5
    estimator = et.Estimator(lambda features: None, run)
    assert estimator.get_variable_value("global_step") >= 1000 > before >= 60
    assert estimator.get_variable_value("w") == pytest.approx([1, 2, 3, 4], abs=0.1)


def test_a_port_in_use_is_named(monkeypatch, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        cluster = {"chief": [address], "worker": ["127.0.0.1:1"]}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}}))
        with pytest.raises(ValueError, match=f"chief 0 cannot listen at {address}: .*in use.*give it a free port"):
            train_and_evaluate(tmp_path)


def test_a_second_evaluator_is_refused(monkeypatch, tmp_path):
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 1}}))
    with pytest.raises(ValueError, match="evaluator 1; there can only be one"):
        train_and_evaluate(tmp_path)


def test_a_strategy_in_a_cluster_is_refused_before_anything_is_written(monkeypatch, tmp_path):
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    config = et.RunConfig(tmp_path, train_distribute=tf.distribute.OneDeviceStrategy("CPU:0"))
    with pytest.raises(ValueError, match="TF_CONFIG names a cluster.*would train in this process alone"):
        et.Estimator(counting, config=config).train(input_fn)


def test_an_evaluator_ends_after_the_last_checkpoint_of_finished_training(monkeypatch, tmp_path, log_lines):
    et.Estimator(counting, tmp_path).train(input_fn, steps=3)
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}}))
    train_and_evaluate(tmp_path, max_steps=3)
    assert any("Saving dict for global step 3" in line for line in log_lines)


def test_an_evaluator_waits_quietly_until_the_first_checkpoint_is_whole(monkeypatch, tmp_path, log_lines):
    et.Estimator(counting, tmp_path).train(input_fn, steps=3)
    state, polls = tmp_path / "checkpoint", []
    whole = state.read_bytes()
    state.unlink()  # the chief writes it last

    def sleep(secs):
        polls.append(secs)
        if len(polls) == 3:
            state.write_bytes(whole)

    monkeypatch.setattr(tasks.time, "sleep", sleep)
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}}))
    train_and_evaluate(tmp_path, max_steps=3)
    assert len(polls) == 3 and any("Saving dict for global step 3" in line for line in log_lines)
    assert not any("cannot be read" in line for line in log_lines)


def test_a_lone_chief_evaluates_and_signals_its_end_to_an_evaluator(monkeypatch, tmp_path, log_lines):
    cluster = {"chief": ["127.0.0.1:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}}))
    train_and_evaluate(tmp_path, max_steps=3)
    assert len([line for line in log_lines if "Saving dict for global step 3" in line]) == 1
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}}))
    monkeypatch.setattr(completion, "_STALE_SECS", 0)  # the marker of the run before counts at once
    train_and_evaluate(tmp_path, max_steps=100)
    assert len([line for line in log_lines if "Saving dict for global step 3" in line]) == 2


def test_an_evaluator_moves_to_the_next_checkpoint_if_its_own_is_deleted(monkeypatch, tmp_path, log_lines):
    trainer = et.Estimator(counting, tmp_path, et.RunConfig(keep_checkpoint_max=1))
    trainer.train(input_fn, steps=1)
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}}))

    def slow_input_fn():
        if trainer.get_variable_value("global_step") < 3:
            with tf.Graph().as_default():
                trainer.train(input_fn, steps=1)
        return input_fn()

    train_and_evaluate(tmp_path, max_steps=3, eval_input_fn=slow_input_fn)
    assert [line.rpartition("-")[2].split()[0] for line in log_lines if "Training deleted" in line] == ["1", "2"]
    assert [line for line in log_lines if "Saving dict for global step" in line][0].startswith(
        "Saving dict for global step 3"
    )


@pytest.mark.parametrize(("max_steps", "says"), [(None, True), (9, True), (1, False)])
def test_a_worker_that_stops_with_the_chief_says_so(max_steps, says, tmp_path, warnings):
    hook = tasks._StopWithChief(SimpleNamespace(chief_done=lambda: True))
    estimator = et.Estimator(counting, tmp_path).train(input_fn, [hook], max_steps=max_steps)
    assert estimator.get_variable_value("global_step") == 1
    message = "The chief has ended, so this worker stops at step 1, after 1 of its own"
    assert any(message in line and "repeat it in the input_fn" in line for line in warnings) == says


@pytest.mark.parametrize("others", [{}, {"evaluator": ["127.0.0.1:5"]}])
def test_each_training_process_gets_its_share_of_the_input(others, monkeypatch, tmp_path):
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2", "127.0.0.1:3"], "ps": ["127.0.0.1:4"], **others}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}}))
    contexts = []

    def sharded_input_fn(input_context):
        contexts.append(input_context)
        return input_fn()

    config = et.RunConfig(tmp_path)
    for mode in (et.ModeKeys.TRAIN, et.ModeKeys.EVAL):
        GraphModel(counting, None, None).prepare(mode, sharded_input_fn, Start(config, None, None), None)
    train, evaluation = contexts
    assert (train.num_input_pipelines, train.input_pipeline_id) == (3, 2)
    assert (evaluation.num_input_pipelines, evaluation.input_pipeline_id) == (1, 0)


def counting(features, labels, mode):
    step = tf.compat.v1.train.get_global_step()
    return et.EstimatorSpec(mode, loss=tf.reduce_mean(features), train_op=step.assign_add(1))


def input_fn():
    return tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(5)


def train_and_evaluate(model_dir, max_steps=None, eval_input_fn=input_fn):
    eval_spec = et.EvalSpec(eval_input_fn, start_delay_secs=0, throttle_secs=0)
    et.train_and_evaluate(et.Estimator(counting, model_dir), et.TrainSpec(input_fn, max_steps), eval_spec)
