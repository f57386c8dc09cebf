"""A client's Estimator with the functions to train, evaluate, predict and export it."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    estimator: Any
    train_input_fn: Callable
    eval_input_fn: Callable
    predict_input_fn: Callable
    features: dict | Any  # a batch of arrays for the exported model
    steps: int


def from_arrays(estimator, features, labels, batch_size, steps):
    """Returns a Case whose input_fns yield batches of the arrays in order; they take `params` for a TPUEstimator."""
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
