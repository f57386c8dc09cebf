"""Computes the metrics of a classifier from true classes and predicted probabilities, and formats them as a table."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tabulate

from estimator_train.app.metrics.class_metrics import (
    ClassMetrics,
    class_metrics,
    class_table,
    digits,
    macro_averages,
    shortened,
)
from estimator_train.app.metrics.outputs import finite

KIND = "class"  # of label

_WIDTH = 80  # columns of a terminal
_BINS = 10  # in a reliability diagram


@dataclasses.dataclass(frozen=True)
class Classification:
    """The metrics of a classifier. Macro averages weight all classes equally."""

    examples: int
    accuracy: float
    accuracy_interval: tuple[float, float]  # 95 %, Wilson's
    macro_precision: float
    macro_recall: float
    macro_f1: float
    macro_roc_auc: float | None
    classes: dict[str, ClassMetrics]  # in the order of their indices
    confusion_matrix: list[list[int]]  # rows are true classes, columns predicted ones
    macro_pr_auc: float | None
    balanced_accuracy: float  # mean recall of the classes that have examples
    cohen_kappa: float | None  # None if all examples are of one class and predicted correctly
    calibration_error: float  # expected, over ten bins: https://arxiv.org/abs/1706.04599
    # (mean probability of the predicted class, accuracy, number of examples) of each bin that is not empty.
    calibration: list[tuple[float, float, int]]

    task = "classification"

    def summary(self) -> dict[str, float | None]:
        """Returns the metrics by which checkpoints are compared; the first one ranks them."""
        return {"accuracy": self.accuracy, "macro F1": self.macro_f1, "ROC AUC": self.macro_roc_auc}


def checked(names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and outputs as `result` takes them; raises as `class_indices` and `class_probabilities` do."""
    return class_indices(labels, len(names)), class_probabilities(outputs, len(names))


def result(names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> Classification:
    """Computes the metrics of a classifier that predicts the most probable class of each example.

        >>> metrics = result(["cat", "dog"], np.array([0, 1]), np.array([[0.9, 0.1], [0.7, 0.3]]))
        >>> metrics.accuracy, metrics.confusion_matrix
        (0.5, [[1, 0], [1, 0]])

    `labels` are class indices of shape (examples,), and `outputs` probabilities of shape (examples, classes).
    """
    from scipy import stats  # takes a second
    from sklearn import metrics

    indices, predicted = np.arange(len(names)), outputs.argmax(axis=1)
    is_right = predicted == labels
    classes = class_metrics(names, labels[:, np.newaxis] == indices, predicted[:, np.newaxis] == indices, outputs)
    interval = stats.binomtest(int(is_right.sum()), len(labels)).proportion_ci(method="wilson")
    calibration = _calibration(outputs.max(axis=1), is_right)
    return Classification(
        examples=len(labels),
        accuracy=float(np.mean(is_right)),
        accuracy_interval=(float(interval.low), float(interval.high)),
        **macro_averages(classes),
        classes=classes,
        confusion_matrix=metrics.confusion_matrix(labels, predicted, labels=indices).tolist(),
        balanced_accuracy=float(np.mean([each.recall for each in classes.values() if each.support])),
        cohen_kappa=_cohen_kappa(labels, predicted),
        calibration_error=_calibration_error(calibration),
        calibration=calibration,
    )


def class_indices(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Converts labels of an input_fn to int class indices of shape (examples,).

        >>> class_indices(np.array([[0, 1], [1, 0]]), num_classes=2).tolist()
        [1, 0]

    Raises ValueError unless they are one-hot of shape (examples, num_classes), or class indices of shape (examples,) or
    (examples, 1).
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

    For two classes, they may be the sigmoid output of a single unit, which is the probability of the second class, of
    shape (examples,) or (examples, 1). Raises ValueError for others, and for numbers that are not finite.
    """
    outputs = finite(outputs)
    if num_classes == 2 and outputs.shape[1:] in [(), (1,)]:
        second = outputs.reshape(-1, 1)
        outputs = np.concatenate([1 - second, second], axis=1)
    if outputs.shape[1:] != (num_classes,):
        shape = outputs.shape[1:]
        raise ValueError(f"the model gives {shape} per example, not a probability for each of {num_classes} classes")
    if np.any(outputs < -1e-3) or np.any(outputs > 1 + 1e-3):
        low, high = outputs.min(), outputs.max()
        raise ValueError(
            f"the model gives {low:.3g} to {high:.3g}, not probabilities; end it with a softmax or sigmoid"
        )
    return outputs


def table(result: Classification) -> str:
    """Formats a `Classification` for a terminal, in at most 80 columns."""
    names = [shortened(name) for name in result.classes]
    low, high = result.accuracy_interval
    accuracy = f"accuracy {result.accuracy:.4f}, 95 % Wilson interval {low:.4f} to {high:.4f}"
    kappa, error = digits(result.cohen_kappa), digits(result.calibration_error)
    matrix = _matrix(names, result.confusion_matrix) or _mistakes(names, result.confusion_matrix)
    numbers = [
        f"{accuracy}, of {result.examples} examples",
        f"balanced accuracy {digits(result.balanced_accuracy)}, Cohen's kappa {kappa}",
        f"macro average of PR AUC {digits(result.macro_pr_auc)}, calibration error {error}",
    ]
    return "\n\n".join([class_table("class", result.classes, result), matrix, "\n".join(numbers)])


def truth(names: Sequence[str], label: int) -> str:
    """Returns the name of an example's class.

    >>> truth(["cat", "dog"], 1)
    'dog'
    """
    return names[label]


def prediction(names: Sequence[str], output: np.ndarray) -> str:
    """Returns the name of the most probable class."""
    return names[int(output.argmax())]


def worst(labels: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Returns the indices of wrong examples, the most probable wrong class first."""
    wrong = np.flatnonzero(outputs.argmax(axis=1) != labels)
    return wrong[np.argsort(-outputs[wrong].max(axis=1), kind="stable")]


def _cohen_kappa(labels, predicted):
    from sklearn import metrics

    if np.unique([labels, predicted]).size == 1:
        return None  # chance agreement is 1, so kappa is undefined
    return float(metrics.cohen_kappa_score(labels, predicted))


def _calibration(confidences, is_right):
    """Returns (mean confidence, accuracy, count) for each bin of confidences that is not empty."""
    # scikit-learn's calibration_curve does not return the counts, which weight the error and size the diagram's dots.
    bins = np.minimum((_BINS * confidences).astype(int), _BINS - 1)
    counts = np.bincount(bins)
    used = np.flatnonzero(counts)
    means, shares = (np.bincount(bins, values)[used] / counts[used] for values in (confidences, is_right))
    return list(zip(means.tolist(), shares.tolist(), counts[used].tolist(), strict=True))


def _calibration_error(calibration):
    examples = sum(count for *_, count in calibration)
    return sum(count / examples * abs(confidence - share) for confidence, share, count in calibration)


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
