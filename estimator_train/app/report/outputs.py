"""Brings the outputs of a model into the form that the metrics of every task take."""

from __future__ import annotations

import numpy as np


def finite(outputs: np.ndarray) -> np.ndarray:
    """Returns the outputs as floats; raises ValueError if one is NaN or infinite, as after a training that diverged.

    >>> finite(np.array([1, 2])).tolist()
    [1.0, 2.0]
    """
    outputs = np.asarray(outputs, float)
    if not np.isfinite(outputs).all():
        raise ValueError("the model gives numbers that are not finite")
    return outputs
