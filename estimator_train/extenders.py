"""add_metrics: an Estimator with metrics of one's own beside those of its model."""

from __future__ import annotations

import inspect

from estimator_train.estimator import Estimator
from estimator_train.model_fn import ModeKeys

_ARGUMENTS = ("features", "labels", "predictions", "config")


def add_metrics(estimator, metric_fn):
    """An `Estimator` of the same model and folder, whose `evaluate` gives the metrics of `metric_fn` too.

    Args:
      estimator: an `Estimator` of a model_fn.
      metric_fn: a function that names those of `features`, `labels`, `predictions` and `config` that it needs, and
        returns a dict of metric names to Keras metrics or (value, update op) pairs. A name that the model has, too,
        means the new metric.

    Raises:
      ValueError: metric_fn has other arguments, or the estimator is of a Keras model.
    """
    names = inspect.signature(metric_fn).parameters
    unexpected = [name for name in names if name not in _ARGUMENTS]
    if unexpected:
        raise ValueError(
            f"metric_fn ({metric_fn}) has following not expected args: {unexpected}; it can have {list(_ARGUMENTS)}."
        )

    def model_fn(features, labels, mode, config):
        spec = estimator.model_fn(features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        offered = {"features": features, "labels": labels, "predictions": spec.predictions, "config": config}
        added = metric_fn(**{name: offered[name] for name in names})
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **added})

    return Estimator(model_fn, config=estimator.config, warm_start_from=estimator._model.warm_start_from)
