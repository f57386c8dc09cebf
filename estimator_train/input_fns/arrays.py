"""An input_fn from numpy arrays in memory."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.autograph import unconverted
from estimator_train._engine.host.array_store import rows_of
from estimator_train._engine.input_fns.order import number_batches, share_of_pipeline
from estimator_train._engine.keras_forms import is_array, refuses_keras_arguments, shown
from estimator_train._engine.types import Nest

_BLOCK_BYTES = 2**20


@refuses_keras_arguments
def arrays(
    x: np.ndarray | dict[str, Any] | tuple[Any, ...],
    y: np.ndarray | dict[str, Any] | tuple[Any, ...] | None = None,
    sample_weight: np.ndarray | None = None,
    *,
    batch_size: int = 64,
    num_epochs: int | None = 1,
    shuffle: bool = False,
    seed: int | None = None,
    drop_remainder: bool = False,
) -> "Arrays":
    """Returns an input_fn over the rows of numpy arrays.

    Elements are batches of `x`, `(x, y)` or `(x, y, sample_weight)` with the dtypes of the arrays. If `x` is a tuple
    and there is no `y`, elements are `(x,)`, because `x` would otherwise be mistaken for features and labels. Batches
    may span epochs; only the very last one may be short.

        >>> input_fn = et.input_fns.arrays(np.arange(5), batch_size=2, num_epochs=2)
        >>> [batch.numpy().tolist() for batch in input_fn()]
        [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]]

    Args:
      x: an array of shape (n, ...), or a dict or tuple of such arrays. It is read in place; the graph holds no copy.
      y: labels in the same form, or None.
      sample_weight: an array of shape (n,); requires `y`.
      batch_size: rows per batch on each replica.
      num_epochs: passes over the rows; None repeats forever.
      shuffle: whether to shuffle all rows, in a new order each epoch; pass True to train. The default keeps the order,
        which evaluation and prediction need.
      seed: seed of the shuffle; None draws one, which depends on TensorFlow's global seed if that is set.
      drop_remainder: whether to drop a short last batch; makes the batch size static.

    The input_fn takes an optional `tf.distribute.InputContext` and gives each input pipeline its shard of the rows.

    Raises ValueError if the arrays are empty or differ in length, one of them is a list of arrays, `sample_weight` is
    given without `y`, or `batch_size` is not positive.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size!r}")
    if sample_weight is not None and y is None:
        raise ValueError("sample_weight requires y: without labels there is no loss to weight")
    data = {"x": x, "y": y, "sample_weight": sample_weight}
    data = {name: _as_arrays(value, name) for name, value in data.items() if value is not None}
    num_rows = _common_length(data)
    return Arrays(data, num_rows, batch_size, num_epochs, shuffle, seed, drop_remainder)


@dataclasses.dataclass(frozen=True, eq=False)
class Arrays:
    """The input_fn that `arrays` returns, with its arguments; implements the protocol `StartsAnywhere`."""

    data: dict[str, Any] = dataclasses.field(repr=False)  # "x" and, if given, "y" and "sample_weight", of numpy arrays
    num_rows: int  # the length of the arrays
    batch_size: int
    num_epochs: int | None
    shuffle: bool
    seed: int | None
    drop_remainder: bool
    first: int = 0  # rows to skip at the beginning, counted over all epochs and input pipelines

    @unconverted
    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        context = input_context or tf.distribute.InputContext()
        shard = range(context.input_pipeline_id, self.num_rows, context.num_input_pipelines)
        at_once, start = self._batches_at_once(), share_of_pipeline(self.first, context)
        blocks = number_batches(
            len(shard),
            batch_size=at_once * self.batch_size,
            num_epochs=self.num_epochs,
            shuffle=self.shuffle,
            seed=self.seed,
            start=start,
            drop_remainder=self.drop_remainder and at_once == 1,
        )
        batches = blocks.map(lambda numbers: self._rows(shard.start + numbers * shard.step))
        if at_once > 1:
            batches = batches.rebatch(self.batch_size, drop_remainder=self.drop_remainder)
            batches = batches.apply(tf.data.experimental.assert_cardinality(self._num_batches(len(shard), start)))
        return batches.prefetch(tf.data.AUTOTUNE)

    def starting_at(self, examples: int, seed: int) -> "Arrays":
        return dataclasses.replace(self, first=examples, seed=seed if self.seed is None else self.seed)

    def _batches_at_once(self) -> int:
        """Returns how many batches to gather in one numpy call, whose overhead exceeds the cost of a small batch."""
        bytes_of_row = sum(column.nbytes // self.num_rows for column in tf.nest.flatten(self.data))
        return max(1, min(32, _BLOCK_BYTES // max(self.batch_size * bytes_of_row, 1)))

    def _num_batches(self, num_rows: int, start: int) -> int:
        if self.num_epochs is None:
            return tf.data.INFINITE_CARDINALITY
        rows = max(num_rows * self.num_epochs - start, 0)
        return rows // self.batch_size if self.drop_remainder else -(-rows // self.batch_size)

    def _rows(self, indices: tf.Tensor) -> Nest:
        batch = rows_of(tf.nest.flatten(self.data), self.data, indices)
        if set(batch) == {"x"} and not isinstance(batch["x"], tuple):
            return batch["x"]
        return tuple(batch[name] for name in ("x", "y", "sample_weight") if name in batch)


def _as_arrays(value: Any, name: str) -> Nest:
    if isinstance(value, dict):
        return {key: _as_arrays(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_as_arrays(item, f"{name}[{index}]") for index, item in enumerate(value))
    if isinstance(value, list) and value and all(is_array(item) and np.ndim(item) > 0 for item in value):
        raise ValueError(
            f"{name} is a list of {len(value)} arrays, which fit takes for as many inputs or outputs; pass "
            f"tuple({name}) if they are that, or np.stack({name}) if each is an example"
        )
    array = np.asarray(value)
    if array.dtype == object and array.ndim == 0:
        raise ValueError(
            f"{name} must be arrays, given: {shown(value)}; an input_fn of a dataset is a function that creates it"
        )
    return array


def _common_length(data: dict[str, Nest]) -> int:
    lengths: dict[str, Any] = {name: shape[0] if shape else "a scalar" for name, shape in _named_shapes(data)}
    if len(set(lengths.values())) > 1 or "a scalar" in lengths.values():
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(f"Length of tensors in x and y is mismatched: the arrays must have one length; got {listed}")
    length = next(iter(lengths.values()), 0)
    if length == 0:
        raise ValueError(f"the arrays are empty: {', '.join(lengths) or 'x'}")
    return length


def _named_shapes(value: Nest, name: str = "") -> Iterator[tuple[str, tuple[int, ...]]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _named_shapes(item, f"{name}[{key!r}]" if name else key)
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _named_shapes(item, f"{name}[{i}]")
    else:
        yield name, value.shape
