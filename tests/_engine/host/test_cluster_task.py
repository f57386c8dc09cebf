"""A process's task in the cluster of TF_CONFIG."""

import dataclasses
import json
import subprocess
import sys

import pytest

from estimator_train._engine.host.cluster_task import (
    ClusterTask,
    TaskType,
    has_several_tasks,
    read_tf_config,
    this_task,
)

CLUSTER = {"chief": ["c:1"], "ps": ["p:1", "p:2"], "worker": ["w:1", "w:2"]}
LEGACY_CLUSTER = {"master": ["m:1"], "ps": ["p:1"], "worker": ["w:1"]}
WORKERS = {"worker": ["w:1", "w:2"]}


@pytest.fixture(autouse=True)
def no_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def set_tf_config(monkeypatch):
    """Sets TF_CONFIG to a JSON value."""
    return lambda tf_config: monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))


def task_of(cluster, task_type, index=0, synchronous=False):
    return ClusterTask.from_tf_config({"cluster": cluster, "task": {"type": task_type, "index": index}}, synchronous)


def test_tf_config_is_read_without_tensorflow():
    code = (
        "import sys\n"
        "from estimator_train._engine.host.cluster_task import this_task\n"
        "assert this_task().is_alone and 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_task_types_are_the_job_names():
    assert (TaskType.MASTER, TaskType.PS, TaskType.WORKER) == ("master", "ps", "worker")
    assert (TaskType.CHIEF, TaskType.EVALUATOR) == ("chief", "evaluator")


# The environment variable


@pytest.mark.parametrize("text", [None, "", "{}"])
def test_tf_config_may_be_absent_or_empty(monkeypatch, text):
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    assert read_tf_config() == {}


def test_json_that_is_nested_too_deeply_is_refused_in_one_line(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", 100_000 * "[")  # tests/golden_errors.py has other values
    with pytest.raises(ValueError, match=r"TF_CONFIG is not valid JSON \(.*recursion") as refusal:
        read_tf_config()
    assert "\n" not in str(refusal.value)


# The task


@pytest.mark.parametrize("tf_config", [{}, {"task": {"type": "worker", "index": 0}}, {"cluster": None, "task": None}])
def test_without_a_cluster_the_process_is_a_chief_on_its_own(tf_config):
    task = ClusterTask.from_tf_config(tf_config)
    assert task == ClusterTask()
    assert task.is_chief and task.is_alone and not task.is_evaluator


@pytest.mark.parametrize(
    "task_type, index, global_id, master",
    [
        ("chief", 0, 0, "grpc://c:1"),
        ("worker", 0, 1, "grpc://w:1"),
        ("worker", 1, 2, "grpc://w:2"),
        ("ps", 0, 3, "grpc://p:1"),
        ("ps", 1, 4, "grpc://p:2"),
    ],
)
def test_a_task_of_a_cluster(task_type, index, global_id, master):
    assert task_of(CLUSTER, task_type, index) == ClusterTask(
        task_type=task_type,
        task_id=index,
        global_id_in_cluster=global_id,
        is_chief=task_type == "chief",
        num_training_tasks=3,
        num_worker_replicas=3,
        num_ps_replicas=2,
        cluster={"chief": {0: "c:1"}, "ps": {0: "p:1", 1: "p:2"}, "worker": {0: "w:1", 1: "w:2"}},
        master=master,
    )


def test_global_ids_run_over_chief_then_other_jobs_alphabetically_then_ps():
    cluster = {"ps": ["p:1"], "worker": ["w:1"], "evaluator": ["e:1"], "chief": ["c:1"]}
    global_ids = {job: task_of(cluster, job).global_id_in_cluster for job in ("chief", "worker", "ps")}
    assert global_ids == {"chief": 0, "worker": 2, "ps": 3}


def test_a_task_index_may_be_a_decimal_string():
    assert task_of(CLUSTER, "worker", "1").task_id == 1


def test_a_job_may_name_its_tasks_by_index():
    task = task_of({"chief": ["c:1"], "worker": {"3": "w:4", "1": "w:2"}}, "worker", 3)
    assert task.cluster["worker"] == {1: "w:2", 3: "w:4"}
    assert (task.global_id_in_cluster, task.num_worker_replicas, task.master) == (2, 3, "grpc://w:4")


@pytest.mark.parametrize("index", [0, 7])
@pytest.mark.parametrize("cluster", [CLUSTER, CLUSTER | {"evaluator": ["e:1"]}])
def test_an_evaluator_is_outside_the_cluster_but_counts_its_training_tasks(cluster, index):
    task = task_of(cluster, "evaluator", index)
    assert task == ClusterTask(
        task_type="evaluator",
        task_id=index,
        global_id_in_cluster=None,
        is_chief=False,
        num_training_tasks=3,
        num_worker_replicas=0,
    )
    assert task.is_evaluator and not task.is_alone


@pytest.mark.parametrize(
    "job, global_id, master",
    [("master", 0, "grpc://m:1"), ("worker", 1, "grpc://w:1"), ("ps", 2, "grpc://p:1")],
)
def test_a_legacy_master_is_the_chief(job, global_id, master):
    task = task_of(LEGACY_CLUSTER, job)
    assert (task.task_type, task.global_id_in_cluster, task.master) == (job, global_id, master)
    assert task.is_chief == (job == "master")
    assert (task.num_worker_replicas, task.num_ps_replicas) == (2, 1)


@pytest.mark.parametrize("chief", ["chief", "master"])
def test_a_cluster_of_one_needs_no_server(chief):
    task = task_of({chief: ["c:1"]}, chief)
    assert task == ClusterTask(task_type=chief, cluster={chief: {0: "c:1"}})
    assert task.is_alone


def test_the_first_synchronous_worker_is_the_chief_if_none_is_named():
    assert [task_of(WORKERS, "worker", index, synchronous=True).is_chief for index in (0, 1)] == [True, False]
    named = {"chief": ["c:1"], "worker": ["w:1"]}
    assert [task_of(named, job, synchronous=True).is_chief for job in named] == [True, False]


def test_synchronous_training_takes_no_master():
    with pytest.raises(ValueError, match="does not support a master; rename it to chief"):
        task_of({"master": ["m:1"], "worker": ["w:1"]}, "worker", synchronous=True)


def test_an_evaluator_needs_no_chief_if_the_first_worker_may_be_one():
    task = task_of(WORKERS, "evaluator")
    assert task.is_evaluator and task.num_training_tasks == 2
    with pytest.raises(ValueError, match="exactly one chief"):
        task_of({"worker": ["w:1"], "ps": ["p:1"]}, "evaluator")


def test_service_and_session_masters_are_those_of_tf_config():
    given = {"service": {"key": 1}, "session_master": "grpc://a:1", "eval_session_master": "grpc://b:1"}
    for place in ({}, {"cluster": CLUSTER, "task": {"type": "worker", "index": 0}}):
        task = ClusterTask.from_tf_config(place | given)
        assert (task.service, task.master, task.evaluation_master) == ({"key": 1}, "grpc://a:1", "grpc://b:1")


def test_a_task_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ClusterTask().is_chief = False


# The task of a Keras model's training


def test_several_workers_of_a_keras_model_train_synchronously(set_tf_config):
    set_tf_config({"cluster": WORKERS, "task": {"type": "worker", "index": 0}})
    task = this_task()
    assert task.is_chief and task.num_training_tasks == 2 and not task.is_alone


def test_a_keras_model_in_one_process_may_have_a_master(set_tf_config):
    set_tf_config({"cluster": {"master": ["m:1"]}, "task": {"type": "master", "index": 0}})
    assert this_task().is_alone


def test_a_keras_model_does_not_train_over_parameter_servers(set_tf_config):
    set_tf_config({"cluster": CLUSTER, "task": {"type": "worker", "index": 0}})
    with pytest.raises(ValueError, match="TF_CONFIG has parameter servers, which need a model_fn"):
        this_task()


def test_an_evaluator_of_a_cluster_without_workers_counts_one_task(set_tf_config):
    set_tf_config({"cluster": {"worker": []}, "task": {"type": "evaluator", "index": 0}})
    assert this_task().num_training_tasks == 1


@pytest.mark.parametrize(
    "cluster, several",
    [
        (None, False),
        ({"chief": ["c:1"], "evaluator": ["e:1"]}, False),
        ({"chief": ["c:1"], "ps": ["p:1"]}, True),
        (WORKERS, True),
    ],
)
def test_an_evaluator_does_not_make_several_tasks(cluster, several):
    assert has_several_tasks({"cluster": cluster}) is several
