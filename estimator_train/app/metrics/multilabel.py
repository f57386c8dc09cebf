"""Computes the metrics of multi-label classification, and formats them as a table."""

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from estimator_train.app.metrics.class_metrics import ClassMetrics, class_metrics, class_table, digits, macro_averages
from estimator_train.app.metrics.outputs import finite

KIND = "labels"

_WIDTH = 80  # columns of a terminal
THRESHOLD = 0.5  # labels of at least this probability are predicted, unless thresholds are given


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
    macro_pr_auc: float | None
    thresholds: dict[str, float] | None  # None: THRESHOLD for all labels

    task = "multilabel"

    def summary(self) -> dict[str, float | None]:
        """Returns the metrics by which checkpoints are compared; the first one ranks them."""
        return {"macro F1": self.macro_f1, "exact match": self.exact_match, "ROC AUC": self.macro_roc_auc}


def checked(names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and outputs as `result` takes them; raises ValueError for other shapes or no probabilities."""
    outputs = finite(outputs)
    if labels.shape[1:] != (len(names),) or outputs.shape != labels.shape:
        raise ValueError(f"the model gives {outputs.shape[1:]} per example, not one value for each of {names}")
    if outputs.min() < 0 or outputs.max() > 1:
        raise ValueError("the model's outputs are not probabilities; end it with a sigmoid")
    return labels, outputs


def result(
    names: Sequence[str], labels: np.ndarray, outputs: np.ndarray, thresholds: Mapping[str, float] | None = None
) -> Multilabel:
    """Computes the metrics of a model that predicts the labels of a probability of 0.5, or of their threshold, or more.

        >>> metrics = result(["cat", "dog"], np.array([[1, 0], [1, 1]]), np.array([[0.9, 0.2], [0.8, 0.4]]))
        >>> metrics.exact_match, metrics.labels["dog"].recall
        (0.5, 0.0)

    `labels` are 0 or 1, and `outputs` probabilities, both of shape (examples, labels).
    """
    is_label, is_predicted = labels > 0.5, _is_predicted(outputs, thresholds)
    by_label = class_metrics(names, is_label, is_predicted, outputs)
    return Multilabel(
        examples=len(labels),
        exact_match=float(np.mean((is_label == is_predicted).all(axis=1))),
        **macro_averages(by_label),
        labels=by_label,
        thresholds=None if thresholds is None else dict(thresholds),
    )


def table(result: Multilabel) -> str:
    """Formats a `Multilabel` for a terminal, in at most 80 columns."""
    lines = class_table("label", result.labels, result)
    text = f"{lines}\n\nall labels right {result.exact_match:.4f}, of {result.examples} examples"
    if result.thresholds is None:
        return text
    listed = ", ".join(f"{name} {digits(least)}" for name, least in result.thresholds.items())
    return f"{text}\n{textwrap.fill(f'labels are predicted from these probabilities on: {listed}', _WIDTH)}"


def truth(names: Sequence[str], label: np.ndarray) -> str:
    """Returns the labels of an example as in a manifest, joined by "|"; an empty string if there are none.

    >>> truth(["cat", "dog", "owl"], np.array([1, 0, 1]))
    'cat|owl'
    """
    return prediction(names, label)


def prediction(names: Sequence[str], output: np.ndarray, thresholds: Mapping[str, float] | None = None) -> str:
    """Returns the labels that are predicted from an example's probabilities, as `truth` does.

    >>> prediction(["cat", "dog", "owl"], np.array([0.9, 0.2, 0.5]))
    'cat|owl'
    """
    return "|".join(name for name, is_there in zip(names, _is_predicted(output, thresholds), strict=True) if is_there)


def worst(labels: np.ndarray, outputs: np.ndarray, thresholds: Mapping[str, float] | None = None) -> np.ndarray:
    """Returns the indices of examples with a wrong label, the largest error of a wrong label first."""
    is_wrong = _is_predicted(outputs, thresholds) != (labels > 0.5)
    errors = np.where(is_wrong, np.abs(outputs - labels), 0).max(axis=1)
    wrong = np.flatnonzero(is_wrong.any(axis=1))
    return wrong[np.argsort(-errors[wrong], kind="stable")]


def _is_predicted(outputs, thresholds):
    return outputs >= (THRESHOLD if thresholds is None else np.array(list(thresholds.values())))
