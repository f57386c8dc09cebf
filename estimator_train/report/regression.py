"""How well a model tells the number that an image has."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Regression:
    """The metrics of a model of one number, in the units of the labels. `r2` is None where all labels are the same."""

    examples: int
    mean_absolute_error: float
    root_mean_squared_error: float
    r2: float | None

    task = "regression"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def summary(self) -> dict[str, float | None]:
        """Returns the numbers that checkpoints are compared by, the one that ranks them first."""
        return {"R2": self.r2, "MAE": self.mean_absolute_error, "RMSE": self.root_mean_squared_error}


def regression(labels: np.ndarray, predictions: np.ndarray) -> Regression:
    """Returns the `Regression` of what was predicted.

    R² is the share of the labels' variance that the predictions account for: 1 - sum (y - p)² / sum (y - mean y)².

    Args:
      labels: numbers of shape (examples, 1).
      predictions: numbers of the same shape.

    Raises:
      ValueError: the shapes differ, or a prediction is not finite.

    Example:
      regression(np.array([[1.0], [3.0]]), np.array([[1.0], [2.0]])).mean_absolute_error  # 0.5
    """
    if labels.shape[1:] != (1,) or predictions.shape != labels.shape:
        raise ValueError(f"the model gives {predictions.shape[1:]} an example, and not one number")
    if not np.isfinite(predictions).all():
        raise ValueError("the model gives numbers that are not finite")
    labels, errors = labels.astype(float), predictions.astype(float) - labels.astype(float)
    variance = float(np.var(labels))
    return Regression(
        examples=len(labels),
        mean_absolute_error=float(np.mean(np.abs(errors))),
        root_mean_squared_error=float(np.sqrt(np.mean(errors**2))),
        r2=1 - float(np.mean(errors**2)) / variance if variance else None,
    )


def table(result: Regression) -> str:
    """Returns the line that shows a `Regression` on a terminal."""
    r2 = "n/a" if result.r2 is None else f"{result.r2:.4f}"
    return (
        f"mean absolute error {result.mean_absolute_error:.4g}, root mean squared error "
        f"{result.root_mean_squared_error:.4g}, R2 {r2}, of {result.examples} examples"
    )
