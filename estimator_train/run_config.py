"""RunConfig, the settings of a run, and TaskType, the kinds of tasks in a cluster."""

from estimator_train._engine.host.cluster_task import TaskType
from estimator_train._engine.run_config import RunConfig

__all__ = ["RunConfig", "TaskType"]
