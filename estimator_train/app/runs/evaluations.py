"""The evaluations of a run, kept in its directory as JSON lines."""

import dataclasses
import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.application import read_eval_metrics
from estimator_train._engine.host.files import no_link, write_whole
from estimator_train._engine.host.paths import RemotePath, StrPath, as_path
from estimator_train.app.metrics import tasks
from estimator_train.app.metrics.class_metrics import ClassMetrics
from estimator_train.app.metrics.classification import Classification
from estimator_train.app.metrics.multilabel import Multilabel
from estimator_train.app.metrics.regression import Regression
from estimator_train.app.runs.parsed_json import NUMBER, has, parsed

NAME = "evaluations.jsonl"

# The kind of the result of each task, and the types of those of its fields that readers need.
_RESULTS = {
    "classification": (
        Classification,
        {"accuracy": NUMBER, "accuracy_interval": list, "classes": dict, "confusion_matrix": list},
    ),
    "multilabel": (Multilabel, {"exact_match": NUMBER, "labels": dict}),
    "regression": (Regression, {"mean_absolute_error": NUMBER, "root_mean_squared_error": NUMBER}),
}

log = tf.get_logger()


def entry_of(
    checkpoint: str,
    metrics: Mapping[str, Any],
    result: tasks.Result | None = None,
    *,
    name: str | None = None,
    images: str | None = None,
) -> dict[str, Any]:
    """Returns what a line of evaluations.jsonl holds of an evaluation.

        >>> entry_of("run/model.ckpt-8", {"loss": 0.5, "global_step": 8})["checkpoint"]
        'model.ckpt-8'

    Its keys are checkpoint (the name without the directory), step, time (ISO 8601, in UTC), metrics, and, if there is a
    result, classification, multilabel or regression; name and images, if given. Non-finite numbers become null.

    Args:
      metrics: dict returned by `Estimator.evaluate`.
      name: None for a point of the training's curves, "final" for its result, "afterwards" for an evaluation of a
        finished run; event files have the same names.
      images: "validation", or where the images are, if they are not the run's own evaluation images.
    """
    entry = {
        "checkpoint": Path(checkpoint).name,
        "step": int(metrics["global_step"]),
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "metrics": {name: _finite(value) for name, value in metrics.items() if name != "global_step"},
    }
    entry |= {key: value for key, value in {"name": name, "images": images}.items() if value}
    if result is not None:
        entry[result.task] = dataclasses.asdict(result)
    return entry


def append(model_dir: StrPath, entry: Mapping[str, Any]) -> None:
    """Appends a line with an entry, see `entry_of`, to evaluations.jsonl in `model_dir`."""
    path, before, line = as_path(model_dir, NAME), b"", json.dumps(entry).encode() + b"\n"
    if path.exists():
        before = path.read_bytes()
    if isinstance(path, RemotePath):  # object stores cannot append, but write whole objects
        write_whole(path, before + line)
        return
    if before and not before.endswith(b"\n"):  # a killed process left its line unfinished
        line = b"\n" + line
    # Unbuffered: a single write keeps the lines of several processes apart.
    with open(path, "ab", buffering=0, opener=no_link) as file:
        file.write(line)
        os.fsync(file.fileno())


def read(model_dir: StrPath) -> list[dict[str, Any]]:
    """Returns the entries of evaluations.jsonl in `model_dir`; malformed lines are skipped, with one warning.

    If a process was killed, its last line may be incomplete. Without the file, which the command writes, they are the
    metrics that `Estimator.evaluate` has written to event files.
    """
    path = as_path(model_dir, NAME)
    if not path.is_file():
        by_step = scalars_in(as_path(model_dir, "eval"))
        return [{"checkpoint": f"model.ckpt-{step}", "step": step, "metrics": by_step[step]} for step in by_step]
    entries = list(map(_entry, path.read_bytes().splitlines()))
    bad = [str(number) for number, entry in enumerate(entries, start=1) if entry is None]
    if bad:
        log.warning("%s: skipping %d of %d lines that are not evaluations: %s", path, len(bad), len(entries), bad)
    return [entry for entry in entries if entry is not None]


def scalars_in(directory: StrPath) -> dict[int, dict[str, float]]:
    """Returns the scalars in the event files of a directory, by global steps and names."""
    return read_eval_metrics(f"{os.fspath(directory)}/events.out.tfevents.*")


def result_of(evaluations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the last evaluation by the training, or by a command if there is none; None without any.

    One of validation images or other data is returned only if the run's own evaluation images were not evaluated.

    >>> result_of([{"step": 8}, {"step": 6, "name": "final"}, {"step": 8, "name": "afterwards"}])
    {'step': 6, 'name': 'final'}
    >>> result_of([{"step": 6, "images": "validation"}, {"step": 8, "name": "afterwards"}])
    {'step': 8, 'name': 'afterwards'}
    """
    own = [entry for entry in evaluations if not entry.get("images")] or evaluations
    by_training = [entry for entry in own if entry.get("name") != "afterwards"]
    return next(reversed(by_training or own), None)


def curve_of(evaluations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the evaluations that make the training's curves; if it made none, those of the run's own images, or all.

    >>> curve_of([{"step": 8}, {"step": 6, "name": "final"}])
    [{'step': 8}]
    """
    by_training = [entry for entry in evaluations if not entry.get("name")]
    return by_training or [entry for entry in evaluations if not entry.get("images")] or evaluations


def _finite(value):
    """Returns a number or a list of numbers with NaN and infinities replaced by None, since JSON has neither."""
    return np.where(np.isfinite(value), value, None).tolist()


def _entry(line):
    """Parses a line; returns its evaluation, or None if malformed."""
    entry = parsed(line)
    if not has(entry, checkpoint=str, step=int, metrics=dict):
        return None
    if not all(_is_result(entry[task], *form) for task, form in _RESULTS.items() if task in entry):
        return None
    return entry


def _is_result(value, kind, types):
    if not has(value, examples=int, **types) or not _has_fields(value, kind):
        return False
    by_class = value.get("classes") or value.get("labels") or {}
    return all(_has_fields(each, ClassMetrics) for each in by_class.values())


def _has_fields(value, kind):
    return isinstance(value, dict) and value.keys() == {field.name for field in dataclasses.fields(kind)}
