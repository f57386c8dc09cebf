"""The metrics and plots of an evaluation, for each task of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from estimator_train.report import classification, multilabel, regression

Result = classification.Classification | multilabel.Multilabel | regression.Regression

KINDS = {"classification": "class", "multilabel": "labels", "regression": "number"}  # what an example has


def checked(task: str, names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and outputs as `result` takes them: class indices for a classification.

    Raises:
      ValueError: the labels or the outputs are none of this task.
    """
    if task == "classification":
        number = len(names)
        return classification.class_indices(labels, number), classification.class_probabilities(outputs, number)
    outputs = np.asarray(outputs, float)
    result(task, names, labels, outputs)
    return labels, outputs


def result(task: str, names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> Result:
    """Returns the metrics of a task: those of the classes, of the labels or of the numbers."""
    if task == "multilabel":
        return multilabel.multilabel(names, labels, outputs)
    if task == "regression":
        return regression.regression(labels, outputs)
    return classification.classification(names, labels, outputs)


def table(of: Result) -> str:
    """Returns the lines that show a result on a terminal."""
    return {"multilabel": multilabel, "regression": regression}.get(of.task, classification).table(of)


def truth(task: str, names: Sequence[str], label: Any) -> str | float:
    """Returns the label of an example to be read: a class name, labels with | between them, or a number."""
    if task == "multilabel":
        return multilabel.text_of(names, label)
    return float(label[0]) if task == "regression" else names[label]


def prediction(task: str, names: Sequence[str], output: np.ndarray) -> str | float:
    """Returns what was predicted of an example, as `truth` does: the most probable class, the probable labels."""
    return truth(task, names, output.argmax() if task == "classification" else output)


def short(value: str | float) -> str:
    """Returns what `truth` and `prediction` give as a text for a caption."""
    return f"{value:.4g}" if isinstance(value, float) else value or "none"


def worst(task: str, labels: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Returns the indices of the wrong examples, the worst first: by the probability, or the error, of what is wrong.

    Any number is wrong that is not the label.
    """
    if task == "classification":
        wrong = np.flatnonzero(outputs.argmax(axis=1) != labels)
        return wrong[np.argsort(-outputs[wrong].max(axis=1), kind="stable")]
    errors = np.abs(outputs - labels).max(axis=1)
    wrong = np.flatnonzero(errors > (1 - multilabel.THRESHOLD if task == "multilabel" else 0))
    return wrong[np.argsort(-errors[wrong], kind="stable")]
