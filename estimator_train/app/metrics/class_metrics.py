"""The metrics of each class or label, which classification and multi-label classification share, and their table."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tabulate

SHOWN = {"precision": "precision", "recall": "recall", "f1": "F1", "roc_auc": "ROC AUC"}  # in tables
_NAME = 27  # the columns of the longest class name; longer ones are cut


@dataclasses.dataclass(frozen=True)
class ClassMetrics:
    """The metrics of one class against all others; 0 if the denominator is 0. Undefined areas are None."""

    precision: float
    recall: float
    f1: float
    roc_auc: float | None
    support: int  # number of examples of the class
    pr_auc: float | None  # average precision, as scikit-learn defines it


def class_metrics(
    names: Sequence[str], is_class: np.ndarray, is_predicted: np.ndarray, scores: np.ndarray
) -> dict[str, ClassMetrics]:
    """Returns the metrics of each class, in order, from arrays of shape (examples, classes); scores are probabilities.

    >>> is_cat = np.array([[True], [False]])
    >>> class_metrics(["cat"], is_cat, is_predicted=is_cat, scores=np.array([[0.9], [0.2]]))["cat"].f1
    1.0
    """
    from sklearn import metrics  # takes a second

    positive = [True] if len(names) == 1 else None  # scikit-learn treats a single column as classes 0 and 1
    by_class = metrics.precision_recall_fscore_support(
        is_class, is_predicted, labels=positive, average=None, zero_division=0
    )
    precision, recall, f1, support = (values.tolist() for values in by_class)
    roc_auc = _areas(metrics.roc_auc_score, is_class, scores)
    pr_auc = _areas(metrics.average_precision_score, is_class, scores)
    return {
        name: ClassMetrics(*values)
        for name, *values in zip(names, precision, recall, f1, roc_auc, support, pr_auc, strict=True)
    }


def macro_averages(classes: Mapping[str, ClassMetrics]) -> dict[str, Any]:
    """Returns {"macro_precision": …} for each metric: its mean over the classes, or None if it is None for one."""
    averages = {}
    for metric in ("precision", "recall", "f1", "roc_auc", "pr_auc"):
        values = [getattr(each, metric) for each in classes.values()]
        averages[f"macro_{metric}"] = None if None in values else float(np.mean(values))
    return averages


def class_table(header: str, classes: Mapping[str, ClassMetrics], result: Any) -> str:
    """Formats the metrics of the classes, and their averages in `result`, in at most 80 columns of a terminal."""
    rows = [[shortened(name), *_shown(each), each.support] for name, each in classes.items()]
    rows += [tabulate.SEPARATING_LINE, ["macro average", *_shown(result, "macro_"), result.examples]]
    headers = [header, *SHOWN.values(), "support"]
    return tabulate.tabulate(rows, headers, disable_numparse=True, colalign=["left", *["right"] * 5])


def _shown(values, prefix=""):
    return [digits(getattr(values, prefix + name)) for name in SHOWN]


def digits(value: float | None) -> str:
    """Formats a number with four decimals, and an undefined one as n/a.

    >>> digits(0.5), digits(None)
    ('0.5000', 'n/a')
    """
    return "n/a" if value is None else f"{value:.4f}"


def shortened(name: str, columns: int = _NAME) -> str:
    """Cuts a name to a number of columns, by default those of the first column of the table."""
    return name if len(name) <= columns else f"{name[: columns - 3]}..."


def _areas(area_under_curve: Callable[[np.ndarray, np.ndarray], float], is_class, scores):
    """Returns the area under a curve of each class against all others; None if either has no examples."""
    areas: list[float | None] = []
    for belongs, score in zip(is_class.T, scores.T, strict=True):
        is_defined = belongs.any() and not belongs.all()
        areas.append(float(area_under_curve(belongs, score)) if is_defined else None)
    return areas
