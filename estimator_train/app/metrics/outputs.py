"""Brings the outputs of a model into the form that the metrics of every task take."""

import numpy as np


class NotFiniteError(ValueError):
    """An output is NaN or infinite, as after a training that diverged, so that it predicts nothing."""


def finite(outputs: np.ndarray) -> np.ndarray:
    """Returns the outputs as floats; raises NotFiniteError if one is NaN or infinite.

    >>> finite(np.array([1, 2])).tolist()
    [1.0, 2.0]
    """
    outputs = np.asarray(outputs, float)
    if not np.isfinite(outputs).all():
        raise NotFiniteError("the model gives numbers that are not finite")
    return outputs
