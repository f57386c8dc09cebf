"""Computes the metrics of multi-label classification, and formats them as a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from estimator_train.app.report.class_metrics import ClassMetrics, class_metrics, class_table, macro_averages

KIND = "labels"

_THRESHOLD = 0.5  # labels of at least this probability are predicted


@dataclasses.dataclass(frozen=True)
class Multilabel:
    """The metrics of multi-label classification. Macro averages weight all labels equally."""

    examples: int
    exact_match: float  # fraction of examples whose labels are all right
    macro_precision: float
    macro_recall: float
    macro_f1: float
    macro_roc_auc: float | None
    labels: dict[str, ClassMetrics]  # in the order of the outputs
    macro_pr_auc: float | None = None

    task = "multilabel"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def summary(self) -> dict[str, float | None]:
        """Returns the metrics by which checkpoints are compared; the first one ranks them."""
        return {"macro F1": self.macro_f1, "exact match": self.exact_match, "ROC AUC": self.macro_roc_auc}


def checked(names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the labels and outputs of an evaluation in the form that `result` takes.

    Raises:
      ValueError: If the shapes differ, or the outputs are not probabilities.
    """
    outputs = np.asarray(outputs, float)
    if labels.shape[1:] != (len(names),) or outputs.shape != labels.shape:
        raise ValueError(f"the model gives {outputs.shape[1:]} per example, not one value for each of {names}")
    if outputs.min() < 0 or outputs.max() > 1:
        raise ValueError("the model's outputs are not probabilities; end it with a sigmoid")
    return labels, outputs


def result(names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> Multilabel:
    """Computes the metrics of a model that predicts the labels of probability 0.5 or more.

        >>> metrics = result(["cat", "dog"], np.array([[1, 0], [1, 1]]), np.array([[0.9, 0.2], [0.8, 0.4]]))
        >>> metrics.exact_match, metrics.labels["dog"].recall
        (0.5, 0.0)

    Args:
      names: names of the labels, in order.
      labels: 0 or 1, of shape (examples, labels).
      outputs: probabilities, of the same shape.
    """
    is_label, is_predicted = labels > 0.5, outputs >= _THRESHOLD
    by_label = class_metrics(names, is_label, is_predicted, outputs)
    return Multilabel(
        examples=len(labels),
        exact_match=float(np.mean((is_label == is_predicted).all(axis=1))),
        **macro_averages(by_label),
        labels=by_label,
    )


def table(result: Multilabel) -> str:
    """Formats a `Multilabel` for a terminal, in at most 80 columns."""
    lines = class_table("label", result.labels, result)
    return f"{lines}\n\nall labels right {result.exact_match:.4f}, of {result.examples} examples"


def truth(names: Sequence[str], label: np.ndarray) -> str:
    """Returns the labels of an example as in a manifest, joined by "|"; an empty string if there are none.

        >>> truth(["cat", "dog", "owl"], np.array([0.9, 0.2, 0.5]))
        'cat|owl'

    Values are 0 and 1, or probabilities.
    """
    return "|".join(name for name, value in zip(names, label, strict=True) if value >= _THRESHOLD)


prediction = truth


def worst(labels: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Returns the indices of examples with a wrong label, the largest error first."""
    errors = np.abs(outputs - labels).max(axis=1)
    wrong = np.flatnonzero(errors > 1 - _THRESHOLD)
    return wrong[np.argsort(-errors[wrong], kind="stable")]
