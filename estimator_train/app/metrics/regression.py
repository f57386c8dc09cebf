"""Computes the metrics of regression, and formats them as a line."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from estimator_train.app.metrics.class_metrics import digits
from estimator_train.app.metrics.outputs import finite

KIND = "number"  # of label


@dataclasses.dataclass(frozen=True)
class Regression:
    """The metrics of regression, in the units of the labels. `r2` is None if all labels are equal."""

    examples: int
    mean_absolute_error: float
    root_mean_squared_error: float
    r2: float | None

    task = "regression"

    def summary(self) -> dict[str, float | None]:
        """Returns the metrics by which checkpoints are compared; the first one ranks them."""
        return {"R2": self.r2, "MAE": self.mean_absolute_error, "RMSE": self.root_mean_squared_error}


def checked(names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and outputs as `result` takes them; raises ValueError if shapes differ or one is not finite."""
    outputs = finite(outputs)
    if labels.shape[1:] != (1,) or outputs.shape != labels.shape:
        raise ValueError(f"the model gives {outputs.shape[1:]} per example, not one number")
    return labels, outputs


def result(names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> Regression:
    """Computes the metrics of a regression from labels and predictions of shape (examples, 1); there are no `names`.

    R² is the share of the labels' variance that the predictions explain: 1 - sum (y - p)² / sum (y - mean y)².

        >>> result([], np.array([[1.0], [3.0]]), np.array([[1.0], [2.0]])).mean_absolute_error
        0.5
    """
    labels, errors = labels.astype(float), outputs.astype(float) - labels.astype(float)
    variance, squared_error = float(np.var(labels)), float(np.mean(errors**2))
    return Regression(
        examples=len(labels),
        mean_absolute_error=float(np.mean(np.abs(errors))),
        root_mean_squared_error=math.sqrt(squared_error),
        r2=1 - squared_error / variance if variance else None,
    )


def table(result: Regression) -> str:
    """Formats a `Regression` as a line for a terminal, with n/a for an undefined R².

    >>> table(Regression(examples=4, mean_absolute_error=0.5, root_mean_squared_error=0.7071, r2=0.75))
    'mean absolute error 0.5, root mean squared error 0.7071, R2 0.7500, of 4 examples'
    """
    return (
        f"mean absolute error {result.mean_absolute_error:.4g}, root mean squared error "
        f"{result.root_mean_squared_error:.4g}, R2 {digits(result.r2)}, of {result.examples} examples"
    )


def truth(names: Sequence[str], label: np.ndarray) -> float:
    """Returns an example's number.

    >>> truth([], np.array([0.5]))
    0.5
    """
    return float(label[0])


prediction = truth


def worst(labels: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Returns the indices of all examples whose prediction is not exact, the largest error first."""
    errors = np.abs(outputs - labels).max(axis=1)
    wrong = np.flatnonzero(errors)
    return wrong[np.argsort(-errors[wrong], kind="stable")]
