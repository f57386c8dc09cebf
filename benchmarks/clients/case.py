"""A client's Estimator, and the functions that it is trained, evaluated, asked and exported with."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    estimator: Any
    train_input_fn: Callable
    eval_input_fn: Callable
    predict_input_fn: Callable
    features: dict | Any  # one batch, as arrays: the exported model serves it
    steps: int


def from_arrays(estimator, features, labels, batch_size, steps):
    """A Case whose input functions give batches of the arrays, in their order; a TPUEstimator needs their `params`."""
    import tensorflow as tf

    def dataset():
        return tf.data.Dataset.from_tensor_slices((features, labels)).batch(batch_size)

    return Case(
        estimator,
        lambda params=None: dataset().repeat(),
        lambda params=None: dataset(),
        lambda params=None: dataset().map(lambda features, _: features),
        features,
        steps,
    )
