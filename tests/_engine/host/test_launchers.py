"""TF_CONFIG from the variables that Slurm, SageMaker and Vertex AI set."""

import json
import os
import random
import socket
from pathlib import Path

import pytest
import tensorflow as tf
import warm_python

from estimator_train._engine.host import launchers
from estimator_train._engine.host.cluster_task import read_tf_config

SCRIPT = Path(__file__).parents[2] / "data" / "multi_worker" / "train.py"


def slurm(nodes="n[9-10]", per_node="2,1", node="n9", local=0, job=7, tasks=3):
    """The variables of one task; srun sets many more."""
    return {
        "SLURM_JOB_ID": str(job),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURM_PROCID": "0",
        "SLURMD_NODENAME": node,
        "SLURM_LOCALID": str(local),
    }


def slurm_ports(job):
    return [10_000 + 32 * job + task for task in range(2)]


def is_free(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) != 0


def sagemaker(own="algo-1", hosts=("algo-2", "algo-1")):
    return {"SM_HOSTS": json.dumps(hosts), "SM_CURRENT_HOST": own}


def vertex(task=("workerpool1", 0), **pools):
    pools = pools or {"workerpool0": ["a:2222"], "workerpool1": ["b:2222"], "workerpool3": ["e:2222"]}
    kind, index = task
    spec = {"cluster": pools, "environment": "cloud", "task": {"type": kind, "index": index, "trial": "1"}, "job": "{}"}
    return {"CLUSTER_SPEC": json.dumps(spec)}


@pytest.fixture
def tf_config(monkeypatch):
    """Gives the TF_CONFIG in an environment of these variables."""

    def read(variables):
        with monkeypatch.context() as patch:
            patch.delenv("TF_CONFIG", raising=False)
            for name, value in variables.items():
                patch.setenv(name, value)
            launchers.set_tf_config()
            return read_tf_config()

    yield read
    os.environ.pop("TF_CONFIG", None)


def as_worker(addresses, index):
    return {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}


def test_a_task_of_srun_finds_itself_by_its_node_whatever_the_order(tf_config):
    addresses = ["n10:10224", "n9:10224", "n9:10225"]  # TensorFlow sorts the names
    assert tf_config(slurm()) == as_worker(addresses, 1)
    assert tf_config(slurm(local=1)) == as_worker(addresses, 2)
    assert tf_config(slurm(node="n10")) == as_worker(addresses, 0)


def test_the_hosts_of_sagemaker_are_workers(tf_config):
    assert tf_config(sagemaker()) == as_worker(["algo-1:2223", "algo-2:2223"], 0)
    assert tf_config(sagemaker("algo-2")) == as_worker(["algo-1:2223", "algo-2:2223"], 1)


def test_the_pools_of_vertex_are_the_jobs_of_tf_config(tf_config):
    cluster = {"chief": ["a:2222"], "worker": ["b:2222"]}
    for pool, job in {"workerpool0": "chief", "workerpool1": "worker", "workerpool3": "evaluator"}.items():
        assert tf_config(vertex((pool, 0))) == {"cluster": cluster, "task": {"type": job, "index": 0}}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        slurm(nodes="n9", per_node="1", tasks=1),
        {"SLURM_JOB_ID": "7", "SLURM_STEP_NUM_TASKS": "3"},
        sagemaker(hosts=["algo-1"]),
        {"SM_HOSTS": "", "SM_CURRENT_HOST": "algo-1"},
        vertex(("workerpool0", 0), workerpool0=["a:2222"]),
        {"CLUSTER_SPEC": "not of Vertex"},
        slurm() | {"TF_CONFIG": ""},
    ],
    ids=["nothing", "srun -n1", "sbatch", "one host", "no host", "one pool", "another's variable", "switched off"],
)
def test_one_task_alone_has_no_cluster(variables, tf_config):
    assert tf_config(variables) == {}


@pytest.mark.parametrize(("variables", "lacks"), [(slurm(), True), (sagemaker(), True), (vertex(), False), ({}, False)])
def test_slurm_and_sagemaker_start_no_evaluator(variables, lacks, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "")
    monkeypatch.delenv("TF_CONFIG")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert launchers.set_tf_config() is lacks
    assert not launchers.set_tf_config(), "another one may have set it"


def test_a_tf_config_that_is_set_is_kept(tf_config):
    given = as_worker(["a:1", "b:1"], 1)
    assert tf_config(slurm() | sagemaker() | vertex() | {"TF_CONFIG": json.dumps(given)}) == given


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            slurm(node="n8"),
            r"SLURMD_NODENAME=n8 is not among \['n10:10224', .*; set TF_CONFIG",
        ),
        (slurm(local=2), "Slurm's task SLURM_LOCALID=2 of node SLURMD_NODENAME=n9 is not among"),
        (sagemaker("algo-3"), r"SM_CURRENT_HOST algo-3 is none of SM_HOSTS \['algo-1', 'algo-2'\]; set TF_CONFIG"),
        (vertex(("workerpool9", 0)), "CLUSTER_SPEC has no 'workerpool9', as Vertex AI's would, got .*; set TF_CONFIG"),
    ],
)
def test_variables_that_contradict_each_other_are_refused_in_one_line(variables, message, tf_config):
    with pytest.raises(ValueError, match=message) as refusal:
        tf_config(variables)
    assert "\n" not in str(refusal.value)


@pytest.mark.slow
def test_two_workers_train_as_slurm_starts_them(tmp_path):
    job = next(job for job in random.sample(range(625), 625) if all(map(is_free, slurm_ports(job))))
    settings = json.dumps({"strategy": "multi_worker", "max_steps": 3})
    logs = [tmp_path / f"{index}.log" for index in range(2)]
    processes = []
    for index, log in enumerate(logs):
        environment = os.environ | slurm("localhost", "2", "localhost", index, job, tasks=2)
        command = [SCRIPT, tmp_path / "run", settings]
        processes.append(warm_python.Popen(command, env=environment, stdout=log, stderr=log))
    try:
        assert [process.wait(120) for process in processes] == [0, 0], "".join(log.read_text() for log in logs)
    finally:
        for process in processes:
            process.kill()
    assert tf.train.latest_checkpoint(str(tmp_path / "run")).endswith("-3")
    assert all("over 2 replicas" in log.read_text() for log in logs)
