"""The work of `estimator_train evaluate`: metrics, labels and predictions in one pass over the data."""

import contextlib
import tempfile
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import estimator_train as et
from estimator_train._engine.host.files import quoted
from estimator_train.app.errors import one_line_errors
from estimator_train.app.metrics import tasks
from estimator_train.app.metrics.outputs import NotFiniteError
from estimator_train.app.running.build import build_estimator, build_eval_input_fn
from estimator_train.app.running.damaged_images import naming_all_damaged_images
from estimator_train.app.running.errors import run_errors
from estimator_train.app.running.messages import warn
from estimator_train.app.runs import evaluations, predictions_file
from estimator_train.app.runs.monitor import METRICS

AFTERWARDS = "afterwards"  # name of the evaluations of a finished run

v1 = tf.compat.v1


class Evaluated(NamedTuple):
    """The metrics of `Estimator.evaluate` and, for a dataset, the examples in order, as `metrics.tasks` checks them."""

    metrics: dict
    labels: np.ndarray | None  # None without a dataset
    outputs: np.ndarray | None
    result: tasks.Result | None = None


def evaluate(settings, data, model_dir, checkpoint_paths, thresholds=None):
    """Yields the `Evaluated` of each checkpoint; `thresholds` replace 0.5, and events go to `model_dir`, if any."""
    examples = CollectPredictions(settings, thresholds)
    eval_input_fn = build_eval_input_fn(settings, data)
    with contextlib.ExitStack() as stack:
        if model_dir is None:
            model_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="estimator_train-evaluate-"))
        estimator = examples.attach(build_estimator(settings, model_dir))
        for path in checkpoint_paths:
            with run_errors(), naming_all_damaged_images(settings, data, ["eval"]):
                # Its events are apart from the training's curves.
                metrics = estimator.evaluate(eval_input_fn, hooks=[examples], checkpoint_path=path, name=AFTERWARDS)
            yield examples.evaluation(metrics)


def keep(settings, data, model_dir, checkpoint, evaluation, *, name=None, images=None):
    """Adds an `Evaluated` to evaluations.jsonl, and a classifier's to predictions.csv, unless `model_dir` is None.

    `name` and `images` are those of `evaluations.entry_of`. predictions.csv belongs to the run's result, on its own
    evaluation images. Returns the line's content.
    """
    metrics, labels, outputs, result = evaluation
    entry = evaluations.entry_of(checkpoint, metrics, result, name=name, images=images)
    if model_dir is None:
        return entry
    with one_line_errors():
        evaluations.append(model_dir, entry)
        is_missing = predictions_file.read(model_dir) is None  # or in another form
        replaces = name != AFTERWARDS or is_missing or _is_result_by_command(model_dir)
        if result and settings.task == "classification" and replaces and not images:
            predictions_file.write(model_dir, data, settings.class_names, labels, outputs)
    return entry


def _is_result_by_command(model_dir):
    """Returns whether the run's result is the last evaluation by a command, as if it ended before its final one."""
    result = evaluations.result_of(evaluations.read(model_dir))
    return result is not None and result.get("name") == AFTERWARDS


class CollectPredictions(et.SessionRunHook):
    """A hook that collects labels and predictions while the estimator returned by `attach` is evaluated.

    Classification without names of classes, as with an input_fn, collects nothing.
    """

    def __init__(self, settings, thresholds=None):
        self._task, self._class_names = settings.task, settings.class_names
        self._thresholds = thresholds
        self._keeps = self._task == "regression" or bool(self._class_names)
        self._tensors = []

    def attach(self, estimator):
        """Returns an Estimator whose evaluations this hook can watch; they have `monitor.METRICS`, too."""
        if not self._keeps:
            return estimator
        return et.add_metrics(estimator, self._metric_fn)

    def evaluation(self, metrics):
        """Returns the `Evaluated` that has just produced `metrics`."""
        if not self._keeps:
            return Evaluated(metrics, None, None)
        labels, outputs, result = self._evaluated()
        if result is None:  # there is nothing behind the metrics added
            metrics = {name: value for name, value in metrics.items() if name not in METRICS[self._task]}
        if not self._is_finite:  # to Keras, NaN predicts the first class
            metrics = metrics | {name: np.nan for name in metrics if name not in ("loss", "global_step")}
        return Evaluated(metrics, labels, outputs, result)

    def after_create_session(self, session, coord):
        self._batches, self._examples, self._is_finite = [], None, True

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._tensors)

    def after_run(self, run_context, run_values):
        self._batches.append(run_values.results)

    def _metric_fn(self, labels, predictions):
        """Keeps the tensors to fetch, and adds the metrics, which are computed after the last example."""
        self._tensors = labels, predictions
        if len(predictions) > 1:
            return {}
        names = METRICS[self._task]
        values = tf.ensure_shape(tf.numpy_function(self._values, [], tf.float64), [len(names)])
        # A step has nothing to update.
        return {
            name: (value, tf.nest.flatten(labels)[0]) for name, value in zip(names, tf.unstack(values), strict=True)
        }

    def _values(self):
        *_, result = self._evaluated()
        values = [getattr(result, name, None) for name in METRICS[self._task]]
        return np.array(values, np.float64)  # None becomes NaN

    def _evaluated(self):
        """Returns (labels, outputs, result) of all examples; see `Evaluated`."""
        if self._examples is None:
            labels, outputs = self._all_batches()
            result = None
            if labels is not None:
                result = tasks.named(self._task, self._thresholds).result(self._class_names, labels, outputs)
            self._examples = labels, outputs, result
        return self._examples

    def _all_batches(self):
        """Returns (labels, outputs) of all examples; says why and returns (None, None) if they do not fit the task."""
        labels, predictions = zip(*self._batches, strict=True)
        try:
            if len(predictions[0]) > 1:
                raise ValueError(f"the model has the outputs {quoted(predictions[0])}, not a single one")
            (name,) = predictions[0]
            outputs = np.concatenate([batch[name] for batch in predictions])
            return tasks.named(self._task).checked(self._class_names, np.concatenate(labels), outputs)
        except ValueError as error:
            self._is_finite = not isinstance(error, NotFiniteError)
            warn(f"there are no metrics per class: {error}")
            return None, None
