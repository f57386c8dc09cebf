"""Reads the files of a run: run.json, evaluations.jsonl, timing.json and events. Damaged parts are skipped."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_train._engine import checkpoints
from estimator_train._engine.events import read_eval_metrics
from estimator_train._engine.host.paths import as_path
from estimator_train.app.metrics.class_metrics import ClassMetrics
from estimator_train.app.metrics.classification import Classification
from estimator_train.app.metrics.multilabel import Multilabel
from estimator_train.app.metrics.regression import Regression
from estimator_train.app.models import parse_phases
from estimator_train.exporter import BestCheckpointExporter

log = tf.get_logger()

_SLOT = "/.OPTIMIZER_SLOT/"
_NUMBER = (int, float)
_TIMES = ("steps_per_second", "examples_per_second", "input_wait_share")
_PARTS = ("warmup", "checkpoint", "evaluation", "other", "whole")
_SESSION = ("first_step", "last_step", "seconds", *(f"{part}_seconds" for part in _PARTS))


def read_run(model_dir: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the content of run.json in `model_dir`, without malformed optional parts.

    A run that was trained in Python has event files but no run.json, and no settings.

    Raises:
      ValueError: If there are neither, or run.json does not contain the settings of a run.
    """
    path = as_path(model_dir, "run.json")
    if not path.exists() and any(as_path(model_dir).glob("events.out.tfevents.*")):
        return {"settings": {}}
    try:
        run = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}; it must be the run.json of a run") from error
    if not _has(run, settings=dict) or not _has(run["settings"], model=str):
        raise ValueError(f"{path} has no settings of a run with a model; it must be the run.json of a run")
    kinds = {"command": str, "training": dict, "versions": dict}
    wrong = {name for name, kind in kinds.items() if name in run and not isinstance(run[name], kind)}
    if not _is_counts(run.get("data")):
        wrong.add("data")
    if not (isinstance(run.get("last_step"), int) and 0 <= run["last_step"] < 2**63):
        wrong.add("last_step")
    return {name: value for name, value in run.items() if name not in wrong}


def read_evaluations(model_dir: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the entries of evaluations.jsonl in `model_dir`; malformed lines are skipped, with one warning.

    If a process was killed, its last line may be incomplete. Without the file, which the command writes, they are the
    metrics that `Estimator.evaluate` has written to event files.
    """
    path = as_path(model_dir, "evaluations.jsonl")
    if not path.is_file():
        by_step = read_eval_metrics(f"{os.fspath(model_dir)}/eval/events.out.tfevents.*")
        return [{"checkpoint": f"model.ckpt-{step}", "step": step, "metrics": by_step[step]} for step in by_step]
    lines = path.read_bytes().splitlines()
    entries = [_entry(line) for line in lines]
    bad = [str(number) for number, entry in enumerate(entries, start=1) if entry is None]
    if bad:
        log.warning("%s: skipping %d of %d lines that are not evaluations: %s", path, len(bad), len(lines), bad)
    return [entry for entry in entries if entry is not None]


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
    found = by_training or own
    return found[-1] if found else None


def curve_of(evaluations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the evaluations that make the training's curves, or all if it made none.

    >>> curve_of([{"step": 8}, {"step": 6, "name": "final"}])
    [{'step': 8}]
    """
    return [entry for entry in evaluations if not entry.get("name")] or evaluations


def read_timing(model_dir: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Returns the content of timing.json in `model_dir`, or None if it is missing or (with a warning) malformed.

    Sessions written by earlier versions are dropped, because they lack a breakdown of the time.
    """
    path = as_path(model_dir, "timing.json")
    if not path.is_file():
        return None
    timing = _parsed(path.read_bytes())
    if isinstance(timing, dict) and all(isinstance(timing.get(name, ""), (*_NUMBER, type(None))) for name in _TIMES):
        sessions = timing.get("sessions")
        whole = [each for each in sessions if _is_session(each)] if isinstance(sessions, list) else []
        return timing | {"sessions": whole}
    log.warning("%s is skipped because it is not the timing of a training; the next training will rewrite it", path)
    return None


def read_scaling(model_dir: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the measurements of `estimator_train bench --out model_dir/bench`, a list of `scaling.scaling`'s dicts.

    The list is empty if there are none. A malformed file is skipped with a warning.
    """
    path = as_path(model_dir, "bench", "scaling.json")
    if not path.is_file():
        return []
    measured = _parsed(path.read_bytes())
    rows = measured.get("scaling") if isinstance(measured, dict) else None
    numbers = dict.fromkeys(("replicas", "step_ms", "examples_per_second", "speed_up", "efficiency"), _NUMBER)
    if isinstance(rows, list) and all(_has(row, **numbers) and "epoch_seconds" in row for row in rows):
        return rows
    log.warning("%s is skipped because it was not written by bench; run bench again", path)
    return []


def phase_ends(run: Mapping[str, Any]) -> list[int]:
    """Returns the global steps at which one of the run's --phases ends and the next one begins.

    >>> phases = "freeze=all epochs=1; freeze=none epochs=3"
    >>> phase_ends({"settings": {"phases": phases}, "last_step": 100})
    [25]
    """
    if not isinstance(run["settings"].get("phases"), str) or not isinstance(run.get("last_step"), int):
        return []
    try:
        epochs = [phase.epochs for phase in parse_phases(run["settings"]["phases"])]
    except ValueError:  # written by hand
        return []
    return [round(run["last_step"] * ended / sum(epochs)) for ended in itertools.accumulate(epochs)][:-1]


def best_step(model_dir: str | os.PathLike[str]) -> int | None:
    """Returns the global step of the checkpoint that --keep-best keeps, or None."""
    kept = as_path(model_dir, "export", BestCheckpointExporter().name).glob("*.index")
    steps = [int(found[1]) for path in kept if (found := re.search(r"-(\d+)\.index$", path.name))]
    return max(steps, default=None)


def count_weights(model_dir: str | os.PathLike[str]) -> int | None:
    """Returns the number of weights in the newest checkpoint of a Keras model, or None."""
    checkpoint = checkpoints.latest_intact(os.fspath(model_dir))
    shapes = checkpoints.reader_of(checkpoint).get_variable_to_shape_map() if checkpoint else {}
    of_layers = [shape for name, shape in shapes.items() if name.startswith("layer") and _SLOT not in name]
    return sum(math.prod(shape) for shape in of_layers) or None


def _is_session(session):
    if not _has(session, started=str, **dict.fromkeys(_SESSION, _NUMBER)):
        return False
    return isinstance(session.get("input_wait_seconds"), (*_NUMBER, type(None)))


def _entry(line):
    """Parses a line; returns its evaluation, or None if malformed."""
    entry = _parsed(line)
    if not _has(entry, checkpoint=str, step=int, metrics=dict):
        return None
    for task, is_result in _RESULTS.items():
        if task in entry and not is_result(entry[task]):
            return None
    if "classification" in entry:
        entry["classification"] = _complete(entry["classification"])
    return entry


def _complete(classification):
    """Adds None for fields that the version which logged the `Classification` did not have."""
    _, optional = _fields(Classification)
    _, class_optional = _fields(ClassMetrics)
    classes = {name: dict.fromkeys(class_optional) | each for name, each in classification["classes"].items()}
    return dict.fromkeys(optional) | classification | {"classes": classes}


def _parsed(text):
    """Parses JSON; returns None if it is malformed."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _has(value, **kinds):
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in kinds.items())


def _is_counts(data):
    """Returns whether `data` is a valid "data" entry of run.json: numbers of examples, per class if known."""
    if not _has(data, train=int, eval=int) or "classes" not in data:
        return False
    classes = data["classes"]
    if not classes:
        return True
    if not _has(classes, train=dict, eval=dict) or any(
        counts.keys() != classes["train"].keys() for counts in classes.values()
    ):
        return False
    if "validation" in classes and not _has(data, validation=int):
        return False
    return all(isinstance(count, int) for counts in classes.values() for count in counts.values())


def _is_classification(value):
    """Returns whether `value` is a `Classification`; earlier versions did not log fields that have a default."""
    if not _has(value, examples=int, accuracy=_NUMBER, accuracy_interval=list, classes=dict, confusion_matrix=list):
        return False
    return _has_fields(value, Classification) and all(
        _has_fields(each, ClassMetrics) for each in value["classes"].values()
    )


def _is_multilabel(value):
    has_labels = _has(value, examples=int, exact_match=_NUMBER, labels=dict) and _has_fields(value, Multilabel)
    return has_labels and all(_has_fields(each, ClassMetrics) for each in value["labels"].values())


def _is_regression(value):
    errors = {"mean_absolute_error": _NUMBER, "root_mean_squared_error": _NUMBER}
    return _has(value, examples=int, **errors) and _has_fields(value, Regression)


def _has_fields(value, kind):
    names, optional = _fields(kind)
    return isinstance(value, dict) and names - optional <= value.keys() <= names


def _fields(kind):
    """Returns the names of a dataclass' fields, and the names of the fields with a default."""
    fields = dataclasses.fields(kind)
    return {field.name for field in fields}, {field.name for field in fields if field.default is None}


_RESULTS = {"classification": _is_classification, "multilabel": _is_multilabel, "regression": _is_regression}
