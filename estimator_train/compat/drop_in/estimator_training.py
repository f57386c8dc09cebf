"""The old module `tensorflow.python.distribute.estimator_training`: training in clusters, for tf.estimator alone."""

from __future__ import annotations

from typing import Any

from estimator_train.estimator import Estimator
from estimator_train.run_config import RunConfig
from estimator_train.training import EvalSpec, TrainSpec
from estimator_train.training import train_and_evaluate as train_and_evaluate_here


def should_run_distribute_coordinator(config: RunConfig) -> bool:
    """Returns whether a strategy in `config` trains in a cluster that TF_CONFIG or the strategy names."""
    return getattr(config, "_distribute_coordinator_mode", None) is not None


def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec, executor_cls: type | None = None
) -> Any:
    """Calls `estimator_train.train_and_evaluate`, which needs no executor."""
    del executor_cls
    return train_and_evaluate_here(estimator, train_spec, eval_spec)
