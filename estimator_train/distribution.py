"""Strategies over GPUs, CPU replicas and the workers of TF_CONFIG's cluster."""

from estimator_train._engine.distribution.strategies import (
    cpu_replicas,
    devices_to_split_over,
    gpus,
    let_memory_grow,
    multi_worker,
)

__all__ = ["cpu_replicas", "devices_to_split_over", "gpus", "let_memory_grow", "multi_worker"]

for _name in __all__:
    globals()[_name].__module__ = __name__  # for reprs, tracebacks and pickles
