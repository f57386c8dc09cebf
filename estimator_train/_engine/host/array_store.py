"""Arrays that grow by rows, in memory or at the end of a file, their rows in a dataset, and the room left for them."""

import json
import math
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.host.free_memory import free_memory
from estimator_train._engine.host.host_memory import lazy_zeros
from estimator_train._engine.host.paths import StrPath
from estimator_train._engine.types import Nest


class Column:
    """Rows of one shape and dtype, in a file that has `rows` of them already, or in memory if its path is None."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, path: StrPath | None = None, rows: int = 0) -> None:
        self.shape, self.dtype, self.rows = shape, np.dtype(dtype), rows
        self._path = path
        self._memory = np.empty((0, *shape), dtype)  # with room for more rows

    @property
    def nbytes(self) -> int:
        return self.rows * math.prod(self.shape) * self.dtype.itemsize

    def append(self, rows: np.ndarray, at_most: int = -1) -> None:
        """Adds rows; in the end there will be `at_most` rows, or an unknown number if it is below 0."""
        end = self.rows + len(rows)
        if self._path is not None:
            with open(self._path, "ab") as file:
                file.write(rows.tobytes())
        else:
            if end > len(self._memory):
                grown = lazy_zeros((max(end, at_most, 2 * len(self._memory)), *self.shape), self.dtype)
                grown[: self.rows] = self._memory[: self.rows]
                self._memory = grown
            self._memory[self.rows : end] = rows
        self.rows = end

    def sync(self) -> None:
        """Returns once the rows are on disk, if they are written to a file."""
        if self._path is not None:
            with open(self._path, "ab") as file:
                os.fsync(file.fileno())

    def array(self) -> np.ndarray:
        """Returns an array of (rows, ...); one in a file is mapped into memory."""
        if self._path is None or not self.rows:
            return self._memory[: self.rows]
        return np.memmap(self._path, self.dtype, "r", shape=(self.rows, *self.shape))


def rows_of(columns: Sequence[np.ndarray], structure: Nest, numbers: tf.Tensor) -> Nest:
    """Returns the rows with these numbers of arrays, one for each leaf of `structure`, in its form."""
    # tf.gather would turn the arrays into constants of the graph. Unlike column[numbers], np.take releases the GIL.
    dtypes = [tf.as_dtype(column.dtype) for column in columns]

    def take(places: np.ndarray) -> list[np.ndarray]:
        return [_as_function_result(np.take(column, places, axis=0)) for column in columns]

    rows = tf.numpy_function(take, [numbers], dtypes)
    for tensor, column in zip(rows, columns, strict=True):
        tensor.set_shape((*numbers.shape, *column.shape[1:]))
    return tf.nest.pack_sequence_as(structure, rows)


def _as_function_result(rows: np.ndarray) -> np.ndarray:
    """Returns `rows` as TensorFlow reads them right if a function returns them."""
    if rows.dtype.kind == "U":
        return rows.astype(object)  # it would encode them as ASCII
    if rows.dtype.isnative:
        return rows
    return rows.astype(rows.dtype.newbyteorder("="))  # it takes their bytes as they lie


def bytes_of(array: np.ndarray) -> bytes:
    """Returns the bytes of an array's values, for a digest: of objects, such as strings, those of what repr shows."""
    if array.dtype.hasobject:
        return repr(array.tolist()).encode()
    return array.tobytes()


def free_bytes(directory: StrPath | None) -> float:
    """Returns the bytes that are free on the disk of a directory, or in memory if it is None."""
    return free_memory() if directory is None else shutil.disk_usage(directory).free


def read_manifest(path: StrPath, parse: Callable[[dict], Any], consequence: str) -> Any:
    """Returns `parse` of the JSON object in a file; None if there is no file, or (with a warning) if it is damaged."""
    try:
        with open(path) as file:
            return parse(json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        tf.get_logger().warning("%s cannot be read, so %s: %s", path, consequence, error)
        return None
