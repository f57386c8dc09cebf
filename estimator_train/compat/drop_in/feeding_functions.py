"""The old module `inputs.queues.feeding_functions`: queues of rows, backed by a `tf.data.Dataset`."""

from collections import OrderedDict
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


class _DatasetQueue:
    """The part of a v1 queue's interface that input pipelines use; each call returns the next rows."""

    def __init__(self, dataset):
        self._dataset = dataset

    def dequeue(self, name: str | None = None) -> list[tf.Tensor]:
        """Returns the tensors of the next row."""
        return self._next(self._dataset, name)

    def dequeue_many(self, n: int, name: str | None = None) -> list[tf.Tensor]:
        """Returns the tensors of the next `n` rows; an incomplete batch at the end of the data is dropped."""
        return self._next(self._dataset.batch(n, drop_remainder=True), name)

    def dequeue_up_to(self, n: int, name: str | None = None) -> list[tf.Tensor]:
        """Returns the tensors of the next `n` rows, or of the remaining rows at the end of the data."""
        return self._next(self._dataset.batch(n), name)

    def _next(self, dataset, name):
        iterator = v1.data.make_initializable_iterator(dataset)
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)  # each session runs these first
        return list(iterator.get_next(name))


def enqueue_data(
    data: Any,
    capacity: int,
    shuffle: bool = False,
    min_after_dequeue: int | None = None,
    num_threads: int = 1,
    seed: int | None = None,
    **others: Any,
) -> _DatasetQueue:
    """Returns a queue of the rows of `data`; its `dequeue` methods return the rows' indices, then each column.

        index, values = enqueue_data(np.arange(10.0), capacity=100, num_epochs=1).dequeue_many(5)

    Call it in a v1 graph. The data are a numpy array, an OrderedDict of them, or a DataFrame, whose own index is used;
    otherwise the indices are row numbers. `capacity` is the size of the shuffle buffer, in rows. Without `num_epochs`,
    the rows repeat forever. The other arguments are ignored, but for `pad_value` and unknown ones, which are refused.
    """
    num_epochs = others.pop("num_epochs", None)
    unserved = sorted(others.keys() - {"name", "enqueue_size"})
    if unserved:
        raise ValueError(f"enqueue_data does not take {unserved[0]}; use tf.data.Dataset.padded_batch to pad rows.")
    dataset = tf.data.Dataset.from_tensor_slices(tuple(_columns(data))).repeat(num_epochs)
    return _DatasetQueue(dataset.shuffle(capacity, seed) if shuffle else dataset)


def _columns(data):
    if isinstance(data, np.ndarray):
        return [np.arange(len(data)), data]
    if isinstance(data, OrderedDict):
        columns = list(data.values())
        return [np.arange(len(columns[0])), *columns]
    if hasattr(data, "columns"):  # checked without importing pandas
        return [data.index.to_numpy(), *(data[name].to_numpy() for name in data.columns)]
    raise TypeError(
        "data must be either a numpy array, an OrderedDict of numpy arrays or a pandas DataFrame; "
        f"got {type(data).__name__}. For a generator function, use tf.data.Dataset.from_generator."
    )
