"""The work of `estimator_train evaluate`: metrics, labels and predictions in one pass over the data."""

from __future__ import annotations

from typing import NamedTuple

import click
import numpy as np
import tensorflow as tf

from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.run.build import build_estimator, build_input_fns, run_errors
from estimator_train.app.report import evaluation_log, predictions_file, tasks
from estimator_train.extenders import add_metrics
from estimator_train.run_config import RunConfig

v1 = tf.compat.v1


class Evaluation(NamedTuple):
    """The metrics of `Estimator.evaluate` and, for a dataset, the examples in order, as `report.tasks` checks them."""

    metrics: dict
    labels: np.ndarray | None  # None without a dataset
    outputs: np.ndarray | None


def evaluate(settings, data, model_dir, checkpoint_paths):
    """Yields the `Evaluation` of each checkpoint."""
    examples = CollectPredictions(settings.task, settings.class_names)
    estimator = examples.attach(build_estimator(settings, RunConfig(model_dir=model_dir)))
    _, eval_input_fn = build_input_fns(settings, data)
    for path in checkpoint_paths:
        with run_errors():
            metrics = estimator.evaluate(eval_input_fn, hooks=[examples], checkpoint_path=path)
        yield examples.evaluation(metrics)


def keep(settings, data, model_dir, checkpoint, evaluation):
    """Adds an `Evaluation` to evaluations.jsonl, and a classifier's to predictions.csv.

    Returns the line's content, and the `tasks.Result`, or None without examples.
    """
    metrics, labels, outputs = evaluation
    result = None if labels is None else tasks.named(settings.task).result(settings.class_names, labels, outputs)
    with one_line_errors():
        entry = evaluation_log.append(model_dir, checkpoint, metrics, result)
        if result and settings.task == "classification":
            predictions_file.write(model_dir, data, settings.class_names, labels, outputs)
    return entry, result


class CollectPredictions(v1.train.SessionRunHook):
    """A hook that collects labels and predictions while the estimator returned by `attach` is evaluated.

    Args:
      task: the task of the settings.
      class_names: names of the classes or labels. If empty, as with an input_fn, classification collects nothing.
      metric: name of a number of `tasks.Result` to add to the evaluation's metrics, or None.
    """

    def __init__(self, task, class_names, metric=None):
        self._task = task
        self._class_names = class_names
        self._metric = metric
        self._keeps = task == "regression" or bool(class_names)
        self._tensors = []

    def attach(self, estimator):
        """Returns an Estimator with the same model and directory whose evaluations this hook can watch."""
        return add_metrics(estimator, self._metric_fn) if self._keeps else estimator

    def evaluation(self, metrics):
        """Returns the `Evaluation` that has just produced `metrics`."""
        return Evaluation(metrics, *(self._examples() if self._keeps else (None, None)))

    def after_create_session(self, session, coord):
        self._batches = []

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._tensors)

    def after_run(self, run_context, run_values):
        self._batches.append(run_values.results)

    def _metric_fn(self, labels, predictions):
        """Keeps the tensors to fetch, and adds the metric, which is computed after the last example."""
        self._tensors = labels, predictions
        if self._metric is None:
            return {}
        value = tf.ensure_shape(tf.numpy_function(self._value, [], tf.float64), [])
        return {self._metric: (value, tf.nest.flatten(labels)[0])}  # a step has nothing to update

    def _value(self):
        labels, outputs = self._examples()
        if labels is None:
            return np.nan
        value = getattr(tasks.named(self._task).result(self._class_names, labels, outputs), self._metric, None)
        return np.float64(np.nan if value is None else value)

    def _examples(self):
        """Returns (labels, outputs) of all examples; says why and returns (None, None) if they do not fit the task."""
        labels, predictions = zip(*self._batches, strict=True)
        try:
            if len(predictions[0]) > 1:
                raise ValueError(f"the model has the outputs {', '.join(predictions[0])}, not a single one")
            (name,) = predictions[0]
            outputs = np.concatenate([batch[name] for batch in predictions])
            return tasks.named(self._task).checked(self._class_names, np.concatenate(labels), outputs)
        except ValueError as error:
            click.echo(f"estimator_train: there are no metrics per class: {error}", err=True)
            return None, None
