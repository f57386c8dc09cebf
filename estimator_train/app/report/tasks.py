"""Computes and formats metrics, labels and predictions according to the task of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from estimator_train.app.report import classification, multilabel, regression

Result = classification.Classification | multilabel.Multilabel | regression.Regression

KINDS = {"classification": "class", "multilabel": "labels", "regression": "number"}  # the kind of label of each task


def checked(task: str, names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and outputs in the form that `result` needs, such as class indices for classification.

    Raises:
      ValueError: If the labels or outputs do not fit the task.
    """
    if task == "classification":
        number = len(names)
        return classification.class_indices(labels, number), classification.class_probabilities(outputs, number)
    outputs = np.asarray(outputs, float)
    result(task, names, labels, outputs)
    return labels, outputs


def result(task: str, names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> Result:
    """Computes the metrics of a task.

    >>> result("regression", [], np.array([[1.0], [3.0]]), np.array([[1.0], [2.0]])).mean_absolute_error
    0.5
    """
    if task == "multilabel":
        return multilabel.multilabel(names, labels, outputs)
    if task == "regression":
        return regression.regression(labels, outputs)
    return classification.classification(names, labels, outputs)


def table(of: Result) -> str:
    """Formats a result for a terminal."""
    return {"multilabel": multilabel, "regression": regression}.get(of.task, classification).table(of)


def truth(task: str, names: Sequence[str], label: Any) -> str | float:
    """Returns an example's label in readable form: a class name, labels joined by "|", or a number.

    >>> truth("classification", ["cat", "dog"], 1)
    'dog'
    """
    if task == "multilabel":
        return multilabel.text_of(names, label)
    return float(label[0]) if task == "regression" else names[label]


def prediction(task: str, names: Sequence[str], output: np.ndarray) -> str | float:
    """Returns an example's prediction in the form of `truth`, such as the name of the most probable class."""
    return truth(task, names, output.argmax() if task == "classification" else output)


def short(value: str | float) -> str:
    """Formats the result of `truth` or `prediction` for a caption."""
    return f"{value:.4g}" if isinstance(value, float) else value or "none"


def worst(task: str, labels: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Returns the indices of wrong examples, worst first: by the probability of the wrong class, or by the error.

    In a regression, every prediction that differs from the label is wrong.
    """
    if task == "classification":
        wrong = np.flatnonzero(outputs.argmax(axis=1) != labels)
        return wrong[np.argsort(-outputs[wrong].max(axis=1), kind="stable")]
    errors = np.abs(outputs - labels).max(axis=1)
    wrong = np.flatnonzero(errors > (1 - multilabel.THRESHOLD if task == "multilabel" else 0))
    return wrong[np.argsort(-errors[wrong], kind="stable")]
