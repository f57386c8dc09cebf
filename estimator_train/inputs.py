"""numpy_input_fn and pandas_input_fn of tf.estimator.inputs, built on tf.data instead of queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.keras_forms import refuses_keras_arguments
from estimator_train._engine.types import Nest
from estimator_train.input_fns.arrays import Arrays, arrays

if TYPE_CHECKING:
    import pandas as pd


@refuses_keras_arguments
def numpy_input_fn(
    x: np.ndarray | dict[str, np.ndarray],
    y: np.ndarray | dict[str, np.ndarray] | None = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[..., tf.data.Dataset]:
    """Returns an input_fn over the rows of numpy arrays.

    It returns a `tf.data.Dataset` of features or (features, labels), with the structure and dtypes of `x` and `y`. If
    another input_fn calls it in a v1 graph, it returns the tensors of a batch, as in tf.estimator. Batches may span two
    epochs: only the last batch of all may be smaller.

        >>> input_fn = et.inputs.numpy_input_fn({"x": np.arange(5)}, np.arange(5), batch_size=3, shuffle=False)
        >>> [labels.numpy().tolist() for features, labels in input_fn()]
        [[0, 1, 2], [3, 4]]

    Args:
      x: features, an array or a dict of names to arrays; the first dimension is the row.
      y: labels, in the same form; None if there are none.
      batch_size: number of rows in a batch, per replica.
      num_epochs: number of passes over the rows; None repeats forever.
      shuffle: a bool, required; whether to shuffle all rows, in a new order each epoch.
      queue_capacity, num_threads: ignored; more threads do not multiply the epochs.

    Raises:
      TypeError: If `x` is neither an array nor a dict.
      ValueError: If `shuffle` is not a bool, arrays are empty or differ in length, or a feature and a label have the
        same name.
    """
    _check_shuffle(shuffle)
    if not isinstance(x, (dict, np.ndarray)):
        raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
    if isinstance(x, dict) and not x:
        raise ValueError("x cannot be an empty dict")
    if isinstance(y, dict):
        if not y:
            raise ValueError("y cannot be empty dict, use None instead.")
        if isinstance(x, dict) and (shared := sorted(x.keys() & y.keys())):
            raise ValueError(f"{len(shared)} duplicate keys are found in both x and y: {shared}")
    return _input_fn(x, y, batch_size, num_epochs, shuffle)


@refuses_keras_arguments
def pandas_input_fn(
    x: pd.DataFrame,
    y: pd.Series | pd.DataFrame | None = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[..., tf.data.Dataset]:
    """Returns an input_fn over the rows of a pandas DataFrame, with one feature per column.

        >>> import pandas as pd
        >>> table = pd.DataFrame({"age": [31, 45], "height": [1.6, 1.8]})
        >>> input_fn = et.inputs.pandas_input_fn(table, pd.Series([0, 1]), shuffle=False)
        >>> [sorted(features) for features, labels in input_fn()]
        [['age', 'height']]

    See `numpy_input_fn` for the other arguments.

    Args:
      y: labels with the same index as `x`: a Series, or a DataFrame for a dict of labels keyed by column; or None.
      target_column: name of a Series `y`; no column of `x` may have it.

    Raises:
      TypeError: If `x` is not a DataFrame or `target_column` is not a str.
      ValueError: As for `numpy_input_fn`, or if the indexes differ or `x` has a column called `target_column`.
    """
    _check_shuffle(shuffle)
    if not hasattr(x, "columns"):  # checked without importing pandas
        raise TypeError(f"x must be a pandas DataFrame; got {type(x).__name__}: use numpy_input_fn for arrays")
    if not isinstance(target_column, str):
        raise TypeError(f"target_column must be a string; got {target_column!r}")
    if y is not None:
        if target_column in x:
            raise ValueError(
                f"Cannot use name {target_column} for target column: DataFrame already has a column with that name: "
                f"{list(x.columns)}"
            )
        if not np.array_equal(x.index, y.index):
            raise ValueError(f"Index for x and y are mismatched.\nIndex for x: {x.index}\nIndex for y: {y.index}")
        y = _columns(y) if hasattr(y, "columns") else y.to_numpy()
    return _input_fn(_columns(x), y, batch_size, num_epochs, shuffle)


class _Rows(Arrays):
    """The input_fn of `arrays`, which returns tensors when another input_fn calls it in a v1 graph, as tf.estimator's.

    If the caller is an Estimator, which passes an input_context, or there is a strategy, it returns a dataset.
    """

    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> Any:
        dataset = super().__call__(input_context)
        in_v1_graph = not tf.executing_eagerly() and not tf.inside_function()
        if input_context is None and in_v1_graph and not tf.distribute.has_strategy():
            return tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
        return dataset


def _input_fn(x: Nest, y: Nest, batch_size: int, num_epochs: int | None, shuffle: bool | None) -> _Rows:
    rows = arrays(x, y, batch_size=batch_size, num_epochs=num_epochs, shuffle=bool(shuffle))
    return _Rows(**vars(rows))


def _check_shuffle(shuffle: object) -> None:
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for "
            f"training); got {shuffle}"
        )


def _columns(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    return {name: frame[name].to_numpy() for name in frame.columns}
