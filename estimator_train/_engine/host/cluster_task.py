"""Reads this process' task in a cluster from the environment variable TF_CONFIG, without importing TensorFlow."""

import dataclasses
import json
import os
from collections.abc import Collection
from typing import Any


class TaskType:
    """The job names that TF_CONFIG may use; `master` is the legacy name of the chief."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"
    CHIEF = "chief"
    EVALUATOR = "evaluator"


@dataclasses.dataclass(frozen=True)
class ClusterTask:
    """The task of a process in its cluster; the defaults describe a single process without a cluster.

    As in tf.estimator, an evaluator is not part of the cluster: its `cluster` is empty, and its `num_worker_replicas`
    and `num_ps_replicas` are 0. The attributes without a comment are those of `RunConfig`.
    """

    task_type: str = TaskType.WORKER
    task_id: int = 0
    global_id_in_cluster: int | None = 0
    is_chief: bool = True
    num_training_tasks: int = 1  # the chief and the workers; unlike `num_worker_replicas`, set in an evaluator, too
    num_worker_replicas: int = 1
    num_ps_replicas: int = 0
    cluster: dict[str, dict[int, str]] = dataclasses.field(default_factory=dict)  # host:port by job and index
    master: str = ""
    evaluation_master: str = ""
    service: dict | None = None

    @property
    def is_evaluator(self) -> bool:
        return self.task_type == TaskType.EVALUATOR

    @property
    def is_alone(self) -> bool:
        """Whether this is the only training process; there may be an evaluator besides."""
        return self.num_training_tasks == 1 and not self.is_evaluator

    @classmethod
    def from_tf_config(cls, tf_config: dict, synchronous: bool = False) -> "ClusterTask":
        """Returns the task in a decoded TF_CONFIG; if training is `synchronous`, worker 0 may be the chief.

        Raises ValueError if the cluster does not have exactly one chief, or lacks the task, and TypeError if an address
        is not a string.
        """
        cluster = _addresses(tf_config.get("cluster") or {})
        task = tf_config.get("task") or {}
        own: dict[str, Any] = {
            "evaluation_master": tf_config.get("eval_session_master", ""),
            "service": tf_config.get("service"),
        }
        if not cluster:
            _check_alone(task)
            return cls(master=tf_config.get("session_master", ""), **own)

        chief = _chief_job(cluster, task, synchronous)
        task_type, task_id = _checked_task(tf_config["cluster"], cluster, chief, task)
        # At least 1, because the command divides by it, and "worker" may be an empty list.
        num_training_tasks = sum(len(cluster.get(job, ())) for job in {chief, TaskType.WORKER}) or 1
        own |= {"task_type": task_type, "task_id": task_id, "num_training_tasks": num_training_tasks}
        if task_type == TaskType.EVALUATOR:
            return cls(global_id_in_cluster=None, is_chief=False, num_worker_replicas=0, **own)

        jobs = sorted(cluster, key=lambda job: (job != chief, job == TaskType.PS, job))
        tasks = [(job, index) for job in jobs for index in cluster[job]]
        server = f"grpc://{cluster[task_type][task_id]}" if len(tasks) > 1 else ""
        return cls(
            global_id_in_cluster=tasks.index((task_type, task_id)),
            is_chief=(task_type, task_id) == (chief, 0),
            num_worker_replicas=num_training_tasks,
            num_ps_replicas=len(cluster.get(TaskType.PS, ())),
            cluster=cluster,
            master=tf_config.get("session_master", server),
            **own,
        )


def read_tf_config() -> dict:
    """Returns the decoded environment variable TF_CONFIG; {} if it is not set or empty.

    Raises ValueError if it is not a JSON object, and TypeError if its cluster, task or service is not one.
    """
    text = os.environ.get("TF_CONFIG")
    if not text:
        return {}
    try:
        tf_config = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"TF_CONFIG is not valid JSON ({error}): {text[:1000]!r}; correct or unset it.") from error
    if not isinstance(tf_config, dict):
        raise ValueError(f"TF_CONFIG must be a JSON object, {{...}}, got {text!r}; correct or unset it.")
    for key in ("cluster", "task", "service"):
        if not isinstance(tf_config.get(key), dict | None):
            raise TypeError(f"{key} in TF_CONFIG must be a JSON object, {{...}}, got {tf_config[key]!r}.")
    for job, tasks in (tf_config.get("cluster") or {}).items():
        if not isinstance(tasks, list | dict):
            raise ValueError(f"{job} in TF_CONFIG's cluster must be a list of host:port, got {tasks!r}.")
    return tf_config


def this_task() -> ClusterTask:
    """Returns this process' task for a Keras model; ValueError if TF_CONFIG is wrong, or has parameter servers."""
    try:
        tf_config = read_tf_config()
        if TaskType.PS in (tf_config.get("cluster") or {}):
            raise ValueError("TF_CONFIG has parameter servers, which need a model_fn; use a script of your own")
        return ClusterTask.from_tf_config(tf_config, synchronous=has_several_tasks(tf_config))
    except TypeError as error:  # the class of RunConfig's errors, as in tf.estimator
        raise ValueError(f"TF_CONFIG is wrong: {str(error).removesuffix('.')}; correct or unset it") from error


def has_several_tasks(tf_config: dict) -> bool:
    """Returns whether the cluster of a decoded TF_CONFIG has more than one task that trains or holds variables."""
    cluster = tf_config.get("cluster") or {}
    return sum(len(tasks) for job, tasks in cluster.items() if job != TaskType.EVALUATOR) > 1


def _addresses(cluster: dict[str, Any]) -> dict[str, dict[int, str]]:
    """Returns a cluster's addresses by job and index; TF_CONFIG has a list, or a dict if some are absent, per job."""
    addresses = {}
    for job, tasks in cluster.items():
        if isinstance(tasks, list):
            tasks = dict(enumerate(tasks))
        addresses[job] = dict(sorted((int(index), tasks[index]) for index in tasks))
        for address in addresses[job].values():
            if not isinstance(address, str):
                raise TypeError(f"Task address {address!r} must be bytes or unicode")  # as tf.train.ClusterSpec says
    return addresses


def _chief_job(cluster: Collection[str], task: dict[str, Any], synchronous: bool) -> str:
    """Returns the name of the job whose first task is the chief."""
    named = [job for job in (TaskType.MASTER, TaskType.CHIEF) if job in cluster]
    if synchronous and TaskType.MASTER in named:
        raise ValueError(
            "MultiWorkerMirroredStrategy does not support a master; rename it to chief in TF_CONFIG's cluster."
        )
    if named:
        return named[0]
    # TF_CONFIG does not say how the workers train; without parameter servers, they must train synchronously.
    is_evaluator = task.get("type") == TaskType.EVALUATOR and TaskType.PS not in cluster
    return TaskType.WORKER if synchronous or is_evaluator else TaskType.CHIEF


def _check_alone(task: dict[str, Any]) -> None:
    if task.get("type", TaskType.WORKER) != TaskType.WORKER or _index(task, default=0) != 0:
        raise ValueError(
            f"TF_CONFIG has no cluster, so its task can only be worker 0, got {task!r}; "
            "add the cluster or remove the task."
        )


def _checked_task(
    cluster: dict[str, Any], addresses: dict[str, dict[int, str]], chief: str, task: dict[str, Any]
) -> tuple[str, int]:
    """Returns the (type, index) of a task, after checking TF_CONFIG's cluster, whose chief job is named `chief`."""
    if chief == TaskType.MASTER and TaskType.CHIEF in cluster:
        raise ValueError(f"TF_CONFIG's cluster has both a chief and a master, got {cluster}; keep only the chief.")
    if chief not in cluster or (chief != TaskType.WORKER and len(cluster[chief]) != 1):
        raise ValueError(f"TF_CONFIG's cluster must have exactly one {chief}, got {cluster}.")
    if len(cluster.get(TaskType.EVALUATOR, ())) > 1:
        raise ValueError(f"TF_CONFIG's cluster must have at most one evaluator, got {cluster}.")
    if not task.get("type"):
        raise ValueError(f"TF_CONFIG's task needs a type, such as one of {sorted(cluster)}, got {task!r}.")
    if task["type"] == TaskType.EVALUATOR and chief == TaskType.MASTER:
        raise ValueError(f"TF_CONFIG's evaluator needs a chief: rename master in its cluster {cluster}.")
    index = _index(task)
    if task["type"] != TaskType.EVALUATOR and index not in addresses.get(task["type"], {}):
        raise ValueError(
            f"{task['type']} {index} of TF_CONFIG's task is not in its cluster {cluster}; "
            "add its address or correct the task."
        )
    return task["type"], index


def _index(task: dict[str, Any], default: int | None = None) -> int:
    index: Any = task.get("index", default)
    if not str(index).isdecimal():  # accepts "1", but neither 0.5 nor true
        raise ValueError(f"The index of TF_CONFIG's task must be an int >= 0, got {task!r}.")
    return int(index)
