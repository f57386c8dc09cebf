"""Which task of TF_CONFIG's cluster a command is; read without TensorFlow."""

from __future__ import annotations

import dataclasses

import click

from estimator_train.cli.settings import one_line_errors
from estimator_train.distribution.cluster_task import read_tf_config


@dataclasses.dataclass(frozen=True)
class Task:
    """`workers`: how many processes train in step; `is_chief`: whether this is the first of them, or the only one."""

    in_cluster: bool
    workers: int
    is_chief: bool
    is_evaluator: bool

    @property
    def is_alone(self):
        return self.workers == 1 and not self.is_evaluator


def this_task():
    """The `Task` that this process is."""
    with one_line_errors():
        tf_config = read_tf_config()
    cluster, task = tf_config.get("cluster") or {}, tf_config.get("task") or {}
    if "ps" in cluster:
        raise click.ClickException("TF_CONFIG has parameter servers, which train a model_fn: run a script of your own")
    jobs = [job for job in ("chief", "master", "worker") if job in cluster]
    is_first = not jobs or (task.get("type"), str(task.get("index"))) == (jobs[0], "0")
    return Task(
        in_cluster=bool(cluster),
        workers=sum(len(cluster[job]) for job in jobs) or 1,
        is_chief=is_first,
        is_evaluator=task.get("type") == "evaluator",
    )
