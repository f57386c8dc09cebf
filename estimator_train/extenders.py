"""add_metrics: adds your own metrics to an Estimator, besides those of its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from estimator_train.estimator import Estimator
from estimator_train.model_fn import argument_names

_ARGUMENTS = ("features", "labels", "predictions", "config")


def add_metrics(estimator: Estimator, metric_fn: Callable[..., Mapping[str, Any]]) -> Estimator:
    """An `Estimator` of the same model and directory, whose `evaluate` gives the metrics of `metric_fn`, too.

    Args:
      estimator: an `Estimator`, of a Keras model or of a model_fn.
      metric_fn: a function that names those of `features`, `labels`, `predictions` and `config` that it needs, and
        returns a dict of metric names to Keras metrics or (value, update op) pairs of v1. A name that the model has,
        too, means the new metric. The predictions of a Keras model are a dict by output name.

    Raises:
      ValueError: metric_fn has other arguments.
    """
    unexpected = [name for name in argument_names(metric_fn) if name not in _ARGUMENTS]
    if unexpected:
        raise ValueError(
            f"metric_fn ({metric_fn}) has following not expected args: {unexpected}; it can have {list(_ARGUMENTS)}."
        )
    return Estimator(estimator._model.with_metrics(metric_fn), config=estimator.config, params=estimator.params)
