"""Computes the metrics of a classifier from true classes and predicted probabilities, and formats them as a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tabulate

_WIDTH = 80  # columns of a terminal
_NAME = 27  # the columns of the longest class name; longer ones are cut
_RESAMPLES = 10_000
_BINS = 10  # in a reliability diagram


@dataclasses.dataclass(frozen=True)
class ClassMetrics:
    """The metrics of one class against all others; 0 if the denominator is 0. Undefined areas are None."""

    precision: float
    recall: float
    f1: float
    roc_auc: float | None
    support: int  # number of examples of the class
    pr_auc: float | None = None  # average precision, as scikit-learn defines it


@dataclasses.dataclass(frozen=True)
class Classification:
    """The metrics of a classifier. Macro averages weight all classes equally.

    Metrics with a default are None in evaluations logged by earlier versions.
    """

    examples: int
    accuracy: float
    accuracy_interval: tuple[float, float]  # 95 %, bootstrap
    macro_precision: float
    macro_recall: float
    macro_f1: float
    macro_roc_auc: float | None
    classes: dict[str, ClassMetrics]  # in the order of their indices
    confusion_matrix: list[list[int]]  # rows are true classes, columns predicted ones
    macro_pr_auc: float | None = None
    balanced_accuracy: float | None = None  # mean recall of the classes that have examples
    cohen_kappa: float | None = None  # None if all examples are of one class and predicted correctly
    # Expected calibration error over ten bins, https://arxiv.org/abs/1706.04599; None if probabilities are not finite.
    calibration_error: float | None = None
    # (mean probability of the predicted class, accuracy, number of examples) of each bin that is not empty.
    calibration: list[tuple[float, float, int]] | None = None

    task = "classification"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def summary(self) -> dict[str, float | None]:
        """Returns the metrics by which checkpoints are compared; the first one ranks them."""
        return {"accuracy": self.accuracy, "macro F1": self.macro_f1, "ROC AUC": self.macro_roc_auc}


def classification(class_names: Sequence[str], labels: np.ndarray, probabilities: np.ndarray) -> Classification:
    """Computes the metrics of a classifier that predicts the most probable class of each example.

        >>> result = classification(["cat", "dog"], np.array([0, 1]), np.array([[0.9, 0.1], [0.7, 0.3]]))
        >>> result.accuracy, result.confusion_matrix
        (0.5, [[1, 0], [1, 0]])

    Args:
      class_names: names of the classes, in the order of their indices.
      labels: class indices, of shape (examples,).
      probabilities: of shape (examples, classes).
    """
    from sklearn import metrics  # takes a second

    indices = range(len(class_names))
    predicted = probabilities.argmax(axis=1)
    by_class = metrics.precision_recall_fscore_support(labels, predicted, labels=indices, zero_division=0)
    roc_auc = [area_of(metrics.roc_auc_score, labels == index, probabilities[:, index]) for index in indices]
    pr_auc = [area_of(metrics.average_precision_score, labels == index, probabilities[:, index]) for index in indices]
    precision, recall, f1, support = (values.tolist() for values in by_class)
    accuracy = float(np.mean(predicted == labels))
    calibration = _calibration(probabilities.max(axis=1), predicted == labels)
    return Classification(
        examples=len(labels),
        accuracy=accuracy,
        accuracy_interval=_bootstrap_interval(accuracy, len(labels)),
        macro_precision=float(np.mean(precision)),
        macro_recall=float(np.mean(recall)),
        macro_f1=float(np.mean(f1)),
        macro_roc_auc=mean_of(roc_auc),
        classes={
            name: ClassMetrics(*values)
            for name, *values in zip(class_names, precision, recall, f1, roc_auc, support, pr_auc, strict=True)
        },
        confusion_matrix=metrics.confusion_matrix(labels, predicted, labels=indices).tolist(),
        macro_pr_auc=mean_of(pr_auc),
        balanced_accuracy=float(np.mean([value for value, count in zip(recall, support, strict=True) if count])),
        cohen_kappa=_cohen_kappa(labels, predicted),
        calibration_error=calibration
        and sum(count / len(labels) * abs(confidence - share) for confidence, share, count in calibration),
        calibration=calibration,
    )


def class_indices(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Converts labels of an input_fn to int class indices of shape (examples,).

        >>> class_indices(np.array([[0, 1], [1, 0]]), num_classes=2).tolist()
        [1, 0]

    Args:
      labels: one-hot of shape (examples, num_classes), or class indices of shape (examples,) or (examples, 1).

    Raises:
      ValueError: If the labels are neither.
    """
    if labels.shape[1:] == (num_classes,):
        return labels.argmax(axis=1)
    if labels.shape[1:] not in [(), (1,)] or not np.isin(labels, range(num_classes)).all():
        raise ValueError(
            f"labels of shape {labels.shape[1:]} per example are neither one-hot nor indices of {num_classes} classes"
        )
    return labels.reshape(-1).astype(int)


def class_probabilities(outputs: np.ndarray, num_classes: int) -> np.ndarray:
    """Converts the outputs of a model to float probabilities of shape (examples, num_classes).

        >>> class_probabilities(np.array([[0.25]]), num_classes=2).tolist()
        [[0.75, 0.25]]

    Args:
      outputs: probabilities of that shape; for two classes, also the sigmoid output of a single unit, which is the
        probability of the second class, of shape (examples,) or (examples, 1).

    Raises:
      ValueError: If the outputs are not probabilities of these classes.
    """
    outputs = np.asarray(outputs, float)
    if num_classes == 2 and outputs.shape[1:] in [(), (1,)]:
        second = outputs.reshape(-1, 1)
        outputs = np.concatenate([1 - second, second], axis=1)
    if outputs.shape[1:] != (num_classes,):
        shape = outputs.shape[1:]
        raise ValueError(f"the model gives {shape} per example, not a probability for each of {num_classes} classes")
    if np.any(outputs < -1e-3) or np.any(outputs > 1 + 1e-3):
        low, high = np.nanmin(outputs), np.nanmax(outputs)
        raise ValueError(
            f"the model gives {low:.3g} to {high:.3g}, not probabilities; end it with a softmax or sigmoid"
        )
    return outputs


def table(result: Classification) -> str:
    """Formats a `Classification` for a terminal, in at most 80 columns."""
    names = [_shortened(name, _NAME) for name in result.classes]
    low, high = result.accuracy_interval
    accuracy = f"accuracy {result.accuracy:.4f}, 95 % bootstrap interval {low:.4f} to {high:.4f}"
    balanced, kappa = _digits(result.balanced_accuracy, result.cohen_kappa)
    area, error = _digits(result.macro_pr_auc, result.calibration_error)
    matrix = _matrix(names, result.confusion_matrix) or _mistakes(names, result.confusion_matrix)
    numbers = [
        f"{accuracy}, of {result.examples} examples",
        f"balanced accuracy {balanced}, Cohen's kappa {kappa}",
        f"macro average of PR AUC {area}, calibration error {error}",
    ]
    return "\n\n".join([_class_table(names, result), matrix, "\n".join(numbers)])


def area_of(
    area_under_curve: Callable[[np.ndarray, np.ndarray], float], is_class: np.ndarray, scores: np.ndarray
) -> float | None:
    """Returns the area under a curve of one class against all others; None if either has no examples."""
    if is_class.all() or not is_class.any() or not np.isfinite(scores).all():
        return None
    return float(area_under_curve(is_class, scores))


def _cohen_kappa(labels, predicted):
    from sklearn import metrics

    if np.unique([labels, predicted]).size == 1:
        return None  # chance agreement is 1, so kappa is undefined
    return float(metrics.cohen_kappa_score(labels, predicted))


def _calibration(confidences, is_right):
    """Returns (mean confidence, accuracy, count) for each bin of confidences that is not empty."""
    if not np.isfinite(confidences).all():
        return None
    bins = np.minimum((_BINS * confidences).astype(int), _BINS - 1)
    counts = np.bincount(bins)
    used = np.flatnonzero(counts)
    means, shares = (np.bincount(bins, values)[used] / counts[used] for values in (confidences, is_right))
    return list(zip(means.tolist(), shares.tolist(), counts[used].tolist(), strict=True))


def mean_of(values: Sequence[float | None]) -> float | None:
    """Returns the mean, or None if one of the values is None."""
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if len(defined) == len(values) else None


def _bootstrap_interval(accuracy, examples):
    """Returns the middle 95 % of resampled accuracies; the number of correct predictions is binomially distributed."""
    accuracies = np.random.default_rng(0).binomial(examples, accuracy, _RESAMPLES) / examples
    low, high = np.quantile(accuracies, [0.025, 0.975]).tolist()
    return low, high


def _class_table(names, result):
    rows = [
        [name, *_digits(each.precision, each.recall, each.f1, each.roc_auc), each.support]
        for name, each in zip(names, result.classes.values(), strict=True)
    ]
    macro = _digits(result.macro_precision, result.macro_recall, result.macro_f1, result.macro_roc_auc)
    rows += [tabulate.SEPARATING_LINE, ["macro average", *macro, result.examples]]
    headers = ["class", "precision", "recall", "F1", "ROC AUC", "support"]
    alignment = ["left", *["right"] * 5]
    return tabulate.tabulate(rows, headers, disable_numparse=True, colalign=alignment)


def _matrix(names, matrix):
    """Formats the confusion matrix, cutting column headers to the available width; None if it does not fit."""
    corner = "true \\ predicted"
    digits = len(str(max(max(row) for row in matrix)))
    room = (_WIDTH - max(map(len, [corner, *names]))) // len(names) - 2
    if room < max(digits, 3):
        return None
    rows = [[corner, *(name[:room] for name in names)]]
    rows += [[name, *counts] for name, counts in zip(names, matrix, strict=True)]
    # tabulate's own headers would be two columns wider than their text.
    alignment = ["left", *["right"] * len(names)]
    return tabulate.tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=alignment)


def _mistakes(names, matrix):
    """Formats the ten most frequent mistakes, for models with too many classes for a matrix."""
    counts = np.array(matrix)
    np.fill_diagonal(counts, 0)
    most = [divmod(int(place), len(names)) for place in np.argsort(-counts, axis=None, kind="stable")[:10]]
    rows = [[names[true], names[predicted], counts[true, predicted]] for true, predicted in most]
    rows = [row for row in rows if row[-1]]
    headers = ["most frequent mistakes: true", "predicted", "examples"]
    return tabulate.tabulate(rows, headers, disable_numparse=True, colalign=["left", "left", "right"] if rows else None)


def _digits(*values):
    return ["n/a" if value is None else f"{value:.4f}" for value in values]


def _shortened(name, width):
    return name if len(name) <= width else f"{name[: width - 3]}..."
