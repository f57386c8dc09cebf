"""Computes the metrics of multi-label classification, and formats them as a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tabulate

from estimator_train.app.report.classification import ClassMetrics, area_of, mean_of

THRESHOLD = 0.5  # labels of at least this probability are predicted

_NAME = 27  # the columns of the longest label name; longer ones are cut


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


def multilabel(names: Sequence[str], labels: np.ndarray, probabilities: np.ndarray) -> Multilabel:
    """Computes the metrics of a model that predicts the labels of probability 0.5 or more.

        >>> result = multilabel(["cat", "dog"], np.array([[1, 0], [1, 1]]), np.array([[0.9, 0.2], [0.8, 0.4]]))
        >>> result.exact_match, result.labels["dog"].recall
        (0.5, 0.0)

    Args:
      names: names of the labels, in order.
      labels: 0 or 1, of shape (examples, labels).
      probabilities: of the same shape.

    Raises:
      ValueError: If the shapes differ, or the outputs are not probabilities.
    """
    from sklearn import metrics  # takes a second

    if labels.shape[1:] != (len(names),) or probabilities.shape != labels.shape:
        raise ValueError(f"the model gives {probabilities.shape[1:]} per example, not one value for each of {names}")
    if probabilities.min() < 0 or probabilities.max() > 1:
        raise ValueError("the model's outputs are not probabilities; end it with a sigmoid")
    is_label, is_predicted = labels > 0.5, probabilities >= THRESHOLD
    positive = [True] if len(names) == 1 else None  # scikit-learn treats a single column as classes 0 and 1
    by_label = metrics.precision_recall_fscore_support(
        is_label, is_predicted, labels=positive, average=None, zero_division=0
    )
    precision, recall, f1, support = (values.tolist() for values in by_label)
    indices = range(len(names))
    roc_auc = [area_of(metrics.roc_auc_score, is_label[:, index], probabilities[:, index]) for index in indices]
    pr_auc = [
        area_of(metrics.average_precision_score, is_label[:, index], probabilities[:, index]) for index in indices
    ]
    return Multilabel(
        examples=len(labels),
        exact_match=float(np.mean((is_label == is_predicted).all(axis=1))),
        macro_precision=float(np.mean(precision)),
        macro_recall=float(np.mean(recall)),
        macro_f1=float(np.mean(f1)),
        macro_roc_auc=mean_of(roc_auc),
        labels={
            name: ClassMetrics(*values)
            for name, *values in zip(names, precision, recall, f1, roc_auc, support, pr_auc, strict=True)
        },
        macro_pr_auc=mean_of(pr_auc),
    )


def table(result: Multilabel) -> str:
    """Formats a `Multilabel` for a terminal, in at most 80 columns."""
    rows = [
        [
            name if len(name) <= _NAME else f"{name[: _NAME - 3]}...",
            *_digits(of_label.precision, of_label.recall, of_label.f1, of_label.roc_auc),
            of_label.support,
        ]
        for name, of_label in result.labels.items()
    ]
    macro = _digits(result.macro_precision, result.macro_recall, result.macro_f1, result.macro_roc_auc)
    rows += [tabulate.SEPARATING_LINE, ["macro average", *macro, result.examples]]
    headers = ["label", "precision", "recall", "F1", "ROC AUC", "support"]
    lines = tabulate.tabulate(rows, headers, disable_numparse=True, colalign=["left", *["right"] * 5])
    return f"{lines}\n\nall labels right {result.exact_match:.4f}, of {result.examples} examples"


def text_of(names: Sequence[str], values: np.ndarray) -> str:
    """Returns the labels of an example as in a manifest, joined by "|"; an empty string if there are none.

        >>> text_of(["cat", "dog", "owl"], np.array([0.9, 0.2, 0.5]))
        'cat|owl'

    Values are 0 and 1, or probabilities.
    """
    return "|".join(name for name, value in zip(names, values, strict=True) if value >= THRESHOLD)


def _digits(*values):
    return ["n/a" if value is None else f"{value:.4f}" for value in values]
