"""Sets TF_CONFIG from the variables of Slurm, SageMaker and Vertex AI, whose tasks know each other without it.

Every reader of TF_CONFIG, TensorFlow's included, then finds the same cluster. Sources: srun(1), "Output environment
variables"; SageMaker Training Toolkit, ENVIRONMENT_VARIABLES.md; Vertex AI, "Distributed training".
"""

import collections
import json
import os
from typing import Any

_SAGEMAKER_PORT = 2223  # as TensorFlow's own resolver for SageMaker, which has no public name
_VERTEX_JOBS = {"workerpool0": "chief", "workerpool1": "worker", "workerpool2": "ps", "workerpool3": "evaluator"}
_SLURM_PORTS = range(10_000, 30_000, 32)  # below those that Linux gives out by itself; for the tasks of a node


def set_tf_config() -> bool:
    """Sets TF_CONFIG in the environment if a launcher has started several tasks and it is not set yet.

    All tasks of Slurm and SageMaker are workers that train synchronously. An empty TF_CONFIG counts as set, and means
    that the tasks train independently of each other. Returns whether it was set for tasks among which there can be no
    evaluator. Raises ValueError if the launcher's variables contradict each other.
    """
    if "TF_CONFIG" in os.environ:
        return False
    for launched in (_of_vertex, _of_sagemaker, _of_slurm):
        tf_config = launched()
        if tf_config is not None:
            os.environ["TF_CONFIG"] = json.dumps(tf_config)
            return launched is not _of_vertex
    return False


def is_one_of_several_of_slurm() -> bool:
    """Returns whether srun has started this process with others; `set_tf_config` then imports TensorFlow."""
    return int(os.environ.get("SLURM_STEP_NUM_TASKS") or 1) > 1 and "SLURM_PROCID" in os.environ


def _of_vertex() -> dict[str, Any] | None:
    spec = _json("CLUSTER_SPEC")
    if not isinstance(spec, dict) or not spec.get("cluster"):
        return None
    try:
        cluster = {_VERTEX_JOBS[pool]: addresses for pool, addresses in spec["cluster"].items()}
        task = {"type": _VERTEX_JOBS[spec["task"]["type"]], "index": spec["task"]["index"]}
    except KeyError as error:
        raise ValueError(f"CLUSTER_SPEC has no {error}, as Vertex AI's would, got {spec}; set TF_CONFIG") from error
    evaluators = cluster.pop("evaluator", [])  # TensorFlow's cluster is that of the tasks that train
    several = sum(map(len, cluster.values())) > 1 or evaluators
    return {"cluster": cluster, "task": task} if several else None


def _of_sagemaker() -> dict[str, Any] | None:
    hosts, own = _json("SM_HOSTS"), os.environ.get("SM_CURRENT_HOST")
    if not isinstance(hosts, list) or len(hosts) < 2:
        return None
    hosts.sort()
    if own not in hosts:
        raise ValueError(f"SM_CURRENT_HOST {own} is none of SM_HOSTS {hosts}; set TF_CONFIG")
    return _workers([f"{host}:{_SAGEMAKER_PORT}" for host in hosts], hosts.index(own))


def _of_slurm() -> dict[str, Any] | None:
    if not is_one_of_several_of_slurm():
        return None
    import tensorflow as tf  # a process outside of srun must not wait for it

    job, step = (int(os.environ.get(name) or 0) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        # Jobs and steps that share a node need different ports, and their numbers often follow each other.
        port_base=_SLURM_PORTS[(job + 97 * step) % len(_SLURM_PORTS)],
        # It divides GPUs over the tasks of a node, and fails if there are none. That is left to srun --gpus-per-task.
        gpus_per_node=tasks,
        gpus_per_task=1,
        auto_set_gpu=False,
    )
    workers = resolver.cluster_spec().job_tasks("worker")
    # The resolver sorts nodes by name, n10 before n9, and Slurm does not: the place of a task is that of its address.
    node, local = os.environ.get("SLURMD_NODENAME"), os.environ.get("SLURM_LOCALID")
    places = collections.defaultdict(list)
    for index, address in enumerate(workers):
        places[address.rpartition(":")[0]].append(index)
    if node not in places or not str(local).isdecimal() or int(str(local)) >= len(places[node]):
        raise ValueError(
            f"Slurm's task SLURM_LOCALID={local} of node SLURMD_NODENAME={node} is not among {workers}; set TF_CONFIG"
        )
    return _workers(workers, places[node][int(str(local))])


def _workers(addresses: list[str], index: int) -> dict[str, Any]:
    return {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}


def _json(name: str) -> Any:
    """Returns the decoded value of a variable, or None if it is not set or not JSON."""
    try:
        return json.loads(os.environ.get(name) or "null")
    except (json.JSONDecodeError, RecursionError):
        return None
