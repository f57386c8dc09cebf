"""An input_fn from numpy arrays in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


def arrays(
    x: np.ndarray | dict[str, Any] | tuple[Any, ...],
    y: np.ndarray | dict[str, Any] | tuple[Any, ...] | None = None,
    sample_weight: np.ndarray | None = None,
    *,
    batch_size: int = 64,
    num_epochs: int | None = 1,
    shuffle: bool = False,
    buffer_size: int | None = None,
    seed: int | None = None,
    drop_remainder: bool = False,
) -> Callable[..., tf.data.Dataset]:
    """Returns an input_fn over the rows of numpy arrays.

    Elements are batches of `x`, `(x, y)` or `(x, y, sample_weight)` with the dtypes of the arrays; a tuple
    `x` alone gives `(x,)`, so that it is not taken for features and labels. Batches run on across epochs:
    only the very last one may be short.

    Args:
      x: an array of shape (n, ...), or a dict or tuple of such. Read in place: the graph holds no copy.
      y: labels, likewise; None for none.
      sample_weight: an array of shape (n,); needs `y`.
      batch_size: rows a batch on each replica.
      num_epochs: passes over the rows; None is forever.
      shuffle: whether to shuffle, anew each epoch.
      buffer_size: rows the shuffle draws from; None is all.
      seed: of the shuffle; None takes TensorFlow's global seed.
      drop_remainder: whether to leave a short last batch out; gives a static batch size.

    The input_fn takes an optional `tf.distribute.InputContext`: each input pipeline gets its shard of the
    rows.

    Raises:
      ValueError: the arrays are empty or differ in length, or there is a `sample_weight` without `y`.
    """
    if sample_weight is not None and y is None:
        raise ValueError("sample_weight needs y: there is no loss to weigh without labels")
    data = {"x": x, "y": y, "sample_weight": sample_weight}
    data = {name: _as_arrays(value) for name, value in data.items() if value is not None}
    num_rows = _common_length(data)
    columns = tf.nest.flatten(data)
    dtypes = [tf.as_dtype(column.dtype) for column in columns]

    def rows(indices):
        # Gathered by numpy: the arrays stay where they are instead of becoming constants of the graph.
        batch = tf.numpy_function(lambda i: [column[i] for column in columns], [indices], dtypes)
        for tensor, column in zip(batch, columns, strict=True):
            tensor.set_shape((*indices.shape, *column.shape[1:]))
        batch = tf.nest.pack_sequence_as(data, batch)
        if set(batch) == {"x"} and not isinstance(batch["x"], tuple):
            return batch["x"]
        return tuple(batch[name] for name in ("x", "y", "sample_weight") if name in batch)

    def input_fn(input_context=None):
        indices = tf.data.Dataset.range(num_rows)
        if input_context is not None:
            indices = indices.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        if shuffle:
            indices = indices.shuffle(buffer_size or num_rows, seed=seed)
        indices = indices.repeat(num_epochs).batch(batch_size, drop_remainder=drop_remainder)
        return indices.map(rows).prefetch(tf.data.AUTOTUNE)

    return input_fn


def _as_arrays(value):
    if isinstance(value, dict):
        return {key: _as_arrays(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_as_arrays(item) for item in value)
    return np.asarray(value)


def _common_length(data):
    lengths = {name: shape[0] if shape else "a scalar" for name, shape in _named_shapes(data)}
    if len(set(lengths.values())) > 1 or "a scalar" in lengths.values():
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(f"the arrays must have one length; got {listed}")
    length = next(iter(lengths.values()), 0)
    if length == 0:
        raise ValueError(f"the arrays are empty: {', '.join(lengths) or 'x'}")
    return length


def _named_shapes(value, name=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _named_shapes(item, f"{name}[{key!r}]" if name else key)
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _named_shapes(item, f"{name}[{i}]")
    else:
        yield name, value.shape
