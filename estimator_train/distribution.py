"""Strategies over GPUs, CPU replicas and the workers of TF_CONFIG's cluster.

TensorFlow is imported only when one of these names is first used, because the command reads TF_CONFIG without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from estimator_train.distribution.strategies import (
        cpu_replicas,
        devices_to_split_over,
        gpus,
        let_memory_grow,
        multi_worker,
    )

__all__ = ["cpu_replicas", "devices_to_split_over", "gpus", "let_memory_grow", "multi_worker"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.strategies"), name)


def __dir__() -> list[str]:
    return __all__
