"""Reads the JSON files of a run: run.json, evaluations.jsonl and timing.json. Damaged parts are left out."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import tensorflow as tf

from estimator_train.host.paths import as_path
from estimator_train.report.classification import Classification, ClassMetrics
from estimator_train.report.multilabel import Multilabel
from estimator_train.report.regression import Regression

log = tf.get_logger()

_NUMBER = (int, float)
_TIMES = ("steps_per_second", "examples_per_second", "input_wait_share")
_PARTS = ("warmup", "checkpoint", "evaluation", "other", "whole")
_SESSION = ("first_step", "last_step", "seconds", *(f"{part}_seconds" for part in _PARTS))


def read_run(model_dir: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns what run.json in `model_dir` holds, less optional parts of another form.

    Raises:
      ValueError: there is none, or no settings of a run are in it.
    """
    path = as_path(model_dir, "run.json")
    try:
        run = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}; it must be the run.json of a run") from error
    if not _has(run, settings=dict) or not _has(run["settings"], model=str):
        raise ValueError(f"{path} holds no settings of a run with a model; it must be the run.json of a run")
    kinds = {"command": str, "training": dict, "versions": dict}
    wrong = {name for name, kind in kinds.items() if name in run and not isinstance(run[name], kind)}
    if not _is_counts(run.get("data")):
        wrong.add("data")
    return {name: value for name, value in run.items() if name not in wrong}


def read_evaluations(model_dir: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the entries of evaluations.jsonl in `model_dir`; lines that are none are left out with one warning.

    The last line of a killed process may be torn.
    """
    path = as_path(model_dir, "evaluations.jsonl")
    if not path.is_file():
        return []
    lines = path.read_bytes().splitlines()
    entries = [_entry(line) for line in lines]
    bad = [str(number) for number, entry in enumerate(entries, start=1) if entry is None]
    if bad:
        log.warning("Of %s, %d of %d lines are left out, they are no evaluations: %s", path, len(bad), len(lines), bad)
    return [entry for entry in entries if entry is not None]


def read_timing(model_dir: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Returns what timing.json in `model_dir` holds; None where it is missing, or, with a warning, no timing.

    Of its sessions, those of earlier versions are left out: they do not tell where their time went.
    """
    path = as_path(model_dir, "timing.json")
    if not path.is_file():
        return None
    timing = _parsed(path.read_bytes())
    if isinstance(timing, dict) and all(isinstance(timing.get(name, ""), (*_NUMBER, type(None))) for name in _TIMES):
        sessions = timing.get("sessions")
        whole = [each for each in sessions if _is_session(each)] if isinstance(sessions, list) else []
        return timing | {"sessions": whole}
    log.warning("%s is left out, it is no timing of a training; the next training writes it anew", path)
    return None


def read_scaling(model_dir: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns what `estimator_train bench --out model_dir/bench` measured, `scaling.scaling`'s dicts, else none.

    A file of another form is left out with a warning.
    """
    path = as_path(model_dir, "bench", "scaling.json")
    if not path.is_file():
        return []
    measured = _parsed(path.read_bytes())
    rows = measured.get("scaling") if isinstance(measured, dict) else None
    numbers = dict.fromkeys(("replicas", "step_ms", "examples_per_second", "speed_up", "efficiency"), _NUMBER)
    if isinstance(rows, list) and all(_has(row, **numbers) and "epoch_seconds" in row for row in rows):
        return rows
    log.warning("%s is left out, it is no measurement of bench; measure anew", path)
    return []


def _is_session(session):
    if not _has(session, started=str, **dict.fromkeys(_SESSION, _NUMBER)):
        return False
    return isinstance(session.get("input_wait_seconds"), (*_NUMBER, type(None)))


def _entry(line):
    """The evaluation of a line, or None."""
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
    """A `Classification` as a dict, with None for what the version that logged it did not have."""
    _, optional = _fields(Classification)
    _, of_class = _fields(ClassMetrics)
    classes = {name: dict.fromkeys(of_class) | each for name, each in classification["classes"].items()}
    return dict.fromkeys(optional) | classification | {"classes": classes}


def _parsed(text):
    """The value of a JSON text, or None."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _has(value, **kinds):
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in kinds.items())


def _is_counts(data):
    """Whether it is the "data" of run.json: numbers of examples, and of the classes if these are known."""
    if not _has(data, train=int, eval=int) or "classes" not in data:
        return False
    classes = data["classes"]
    if not classes:
        return True
    if not _has(classes, train=dict, eval=dict) or classes["train"].keys() != classes["eval"].keys():
        return False
    return all(isinstance(count, int) for counts in classes.values() for count in counts.values())


def _is_classification(value):
    """Whether it is a `Classification`; earlier versions logged none of what has a default."""
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


def _has_fields(value, of):
    names, optional = _fields(of)
    return isinstance(value, dict) and names - optional <= value.keys() <= names


def _fields(kind):
    """Returns the names of a dataclass' fields, and the names of the fields with a default."""
    fields = dataclasses.fields(kind)
    return {field.name for field in fields}, {field.name for field in fields if field.default is None}


_RESULTS = {"classification": _is_classification, "multilabel": _is_multilabel, "regression": _is_regression}
