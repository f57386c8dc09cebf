"""The outputs of a model's frozen layers for every example: computed once, kept in memory or on disk."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import filelock
import numpy as np
import tensorflow as tf
import tqdm

from estimator_train._engine.distribution.replica_input import call_input_fn
from estimator_train._engine.host.dataset_iterators import iterate
from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.free_memory import free_memory
from estimator_train._engine.host.host_memory import lazy_zeros
from estimator_train._engine.input_fns.frozen_features import FrozenFeatures
from estimator_train._engine.input_fns.protocols import HasFingerprint
from estimator_train._engine.session.full_disk import explaining_full_disk

log = tf.get_logger()

_COMMIT_SECONDS = 5  # a killed process loses at most this much computing


@dataclasses.dataclass(frozen=True, eq=False)
class FeatureBatches:
    """An input_fn over the frozen layers' outputs for the examples; computes them unless `held` has them.

    Elements are batches (tuple of frozen outputs, labels, ...), with whatever else the examples' elements contain.
    Follows the protocol `input_fns.protocols.StartsAnywhere`.

    Attributes:
      features: the `input_fns.frozen_features.FrozenFeatures`.
      frozen: a `layer_graph.SubModel`, created in the scope of `strategy`.
      strategy: the `tf.distribute.Strategy`.
      held: a dict that keeps the computed outputs between calls.
    """

    features: FrozenFeatures
    frozen: Any
    strategy: tf.distribute.Strategy
    held: dict

    def starting_at(self, examples: int, seed: int) -> FeatureBatches:
        return dataclasses.replace(self, features=self.features.starting_at(examples, seed))

    def __call__(
        self, mode: str, params: Any, config: Any, input_context: tf.distribute.InputContext
    ) -> tf.data.Dataset:
        offered = {"mode": mode, "params": params, "config": config, "input_context": input_context}
        dataset = call_input_fn(self.features.examples, **offered)
        spec = getattr(dataset, "element_spec", None)
        if not all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(spec)):
            raise ValueError(f"frozen_features takes a tf.data.Dataset of batches of dense tensors, got {dataset}")
        inputs, *rest = _element(spec)
        place = input_context.input_pipeline_id, input_context.num_input_pipelines
        key = (1, self.frozen.fingerprint(), self.features.dtype, place)
        frozen_id = hashlib.sha256(repr(key).encode()).hexdigest()
        if frozen_id not in self.held:
            self.held.clear()
            local_replicas = self.strategy.num_replicas_in_sync // input_context.num_input_pipelines
            compute = _compiled(self.frozen, self.strategy, local_replicas, inputs)
            with tf.device(None):  # input_fns are called on the CPU; these layers may run elsewhere
                self.held[frozen_id] = columns_of(self.features, dataset, compute, frozen_id)
        columns = self.held[frozen_id]
        kept = len(columns) - len(tf.nest.flatten(rest))
        return self.features.batches(columns, (tuple(range(kept)), *rest), input_context)


def _compiled(
    frozen: Any, strategy: tf.distribute.Strategy, local_replicas: int, spec: Any
) -> Callable[[Any], list[np.ndarray]]:
    """Returns a function from a batch of features to the frozen part's outputs, a list of arrays.

    Each replica in this process computes its share of the batch. `spec` describes the features.
    """

    def share(features):
        """Takes the replica's slice of the batch; all slices have the same length, padded with the last example.

        They cannot be empty: oneDNN's convolutions give an empty batch a wrong shape.
        """
        if local_replicas > 1:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group % local_replicas
            size = _length(features)
            length = -(-size // local_replicas)
            rows = tf.minimum(replica * length + tf.range(length), size - 1)
            features = tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), features)
        return frozen(features, training=True)

    spec = tf.nest.map_structure(lambda each: tf.TensorSpec([None, *each.shape[1:]], each.dtype), spec)

    @tf.function(autograph=False, input_signature=[spec])
    def compute(features):
        results = map(strategy.experimental_local_results, strategy.run(share, args=(features,)))
        return [tf.concat(result, axis=0)[: _length(features)] for result in results]

    return lambda features: [result.numpy() for result in compute(features)]


def _length(features: Any) -> tf.Tensor:
    return tf.shape(tf.nest.flatten(features)[0])[0]


def columns_of(
    features: FrozenFeatures, dataset: tf.data.Dataset, compute: Callable[[Any], list[np.ndarray]], frozen_id: str
) -> list[np.ndarray]:
    """Returns arrays of (examples, ...) for all frozen outputs, and for the labels and weights of the examples.

    Args:
      features: the `input_fns.frozen_features.FrozenFeatures`.
      dataset: batches of the examples.
      compute: a function from a batch of features to a list of arrays, the frozen outputs.
      frozen_id: a str that identifies `compute`, in this process and in later ones.
    """
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError("frozen_features takes each example once, and the examples' input_fn has no end: num_epochs=1")
    if features.folder is None:
        store = _Store()
        _fill(store, features, dataset, compute)
        return store.arrays()
    examples = features.examples
    has_fingerprint = isinstance(examples, HasFingerprint)
    examples_id = examples.fingerprint() if isinstance(examples, HasFingerprint) else _first_example(dataset)
    name = hashlib.sha256(f"{frozen_id} {examples_id}".encode()).hexdigest()[:16]
    folder = os.path.join(features.folder, name)
    os.makedirs(folder, exist_ok=True)
    with _locked(folder):
        store = _Store(folder)
        is_known = store.is_complete and has_fingerprint
        if not is_known and not _fill(store, features, dataset, compute):
            log.info("The examples of %s have changed; computing its features again.", folder)
            store.clear()
            _fill(store, features, dataset, compute)
        return store.arrays()


class _Store:
    """Columns that grow by rows, in memory or in the files of a directory.

    A manifest in the directory, always replaced as a whole, records how many rows are valid. Anything that a killed
    process wrote after them is cut off.

    Attributes:
      rows: the number of rows.
      digest: digest of the rows' examples at the last commit.
      is_complete: whether these are all examples.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder: Any = folder
        self.rows, self.digest, self.is_complete = 0, None, False
        self._columns = []  # (name of the dtype, shape of a row) for each column
        self._memory = []  # without a directory: an array with room for more rows for each column
        if folder is not None and not self._load():
            self.clear()

    def clear(self) -> None:
        """Deletes all rows from disk; processes that have mapped the files keep their view of them."""
        for name in sorted(os.listdir(self._folder), key=lambda name: name != "manifest.json"):
            os.remove(os.path.join(self._folder, name))
        self.rows, self.digest, self.is_complete, self._columns = 0, None, False, []

    def append(self, arrays: list[np.ndarray], at_most: int = -1) -> None:
        """Adds rows to all columns, which will have `at_most` rows in the end, or an unknown number if it is below 0.

        Raises ValueError if the rows differ from earlier ones in type or shape.
        """
        columns = [(tf.as_dtype(array.dtype).name, array.shape[1:]) for array in arrays]
        if not self._columns:
            self._columns, self._memory = columns, [array[:0] for array in arrays]
        if columns != self._columns:
            raise ValueError(
                f"frozen_features needs examples of one shape; after {self._columns} came {columns}: resize or pad them"
            )
        end = self.rows + len(arrays[0])
        for index, array in enumerate(arrays):
            if self._folder is None:
                column = self._memory[index]
                if end > len(column):
                    room = max(end, at_most, 2 * len(column))
                    self._memory[index] = lazy_zeros((room, *array.shape[1:]), array.dtype)
                    self._memory[index][: self.rows] = column[: self.rows]
                self._memory[index][self.rows : end] = array
            else:
                with open(self._path(index), "ab") as file:
                    file.write(array.tobytes())
        self.rows = end

    def commit(self, digest: str | None, is_complete: bool = False) -> None:
        """Makes the rows valid; on disk, they are written before the manifest that records them."""
        if self._folder is None:
            return
        for index, _ in enumerate(self._columns):
            with open(self._path(index), "ab") as file:
                os.fsync(file.fileno())
        manifest = {"rows": self.rows, "digest": digest, "is_complete": is_complete, "columns": self._columns}
        write_whole(os.path.join(self._folder, "manifest.json"), json.dumps(manifest))

    def require_room(self, arrays: list[np.ndarray], rows: int) -> int:
        """Returns the bytes of `rows` rows like those of `arrays`; raises MemoryError or OSError if they do not fit."""
        size = sum(array.nbytes // len(array) for array in arrays) * rows
        kind: type[Exception]
        if self._folder is None:
            free, kind, place, fix = free_memory(), MemoryError, "memory", "use a directory as cache"
        else:
            free, kind = shutil.disk_usage(self._folder).free, OSError
            place, fix = f"the disk of {self._folder}", "use another directory"
        if size > free:
            left = f"{place} has {_mb(free)} left"
            raise kind(f'The frozen layers\' outputs take {_mb(size)}, and {left}; {fix}, or dtype="float16".')
        return size

    def arrays(self) -> list[np.ndarray]:
        """Returns all columns as arrays of (rows, ...); columns on disk are mapped into memory."""
        if self._folder is None:
            return [memory[: self.rows] for memory in self._memory]
        return [
            np.memmap(self._path(index), _numpy_dtype(name), "r", shape=(self.rows, *shape))
            for index, (name, shape) in enumerate(self._columns)
        ]

    def _load(self) -> bool:
        """Loads the state from the directory; returns False if there is none or it is damaged."""
        path = os.path.join(self._folder, "manifest.json")
        if not os.path.exists(path):
            return False
        try:
            with open(path) as file:
                manifest = json.load(file)
            columns = [(name, tuple(shape)) for name, shape in manifest["columns"]]
            rows, digest, is_complete = (manifest[name] for name in ("rows", "digest", "is_complete"))
            sizes = [rows * math.prod(shape) * _numpy_dtype(name)().itemsize for name, shape in columns]
        except (ValueError, KeyError, TypeError) as error:
            log.warning("%s cannot be read, so the features are computed again: %s", path, error)
            return False
        for index, size in enumerate(sizes):
            if not os.path.exists(self._path(index)) or os.path.getsize(self._path(index)) < size:
                return False
            if os.path.getsize(self._path(index)) > size:
                os.truncate(self._path(index), size)
        self.rows, self.digest, self.is_complete, self._columns = rows, digest, is_complete, columns
        return True

    def _path(self, index: int) -> str:
        return os.path.join(self._folder, f"{index}.rows")


def _fill(
    store: _Store, features: FrozenFeatures, dataset: tf.data.Dataset, compute: Callable[[Any], list[np.ndarray]]
) -> bool:
    """Adds the rows that the store lacks; returns False if its rows belong to other examples."""
    start, kept = time.monotonic(), store.rows
    filling = _Filling(store, features, dataset, compute)
    try:
        for batch in iterate(dataset):
            if not filling.take(batch):
                return False
    except BaseException:
        filling.keep()
        raise
    finally:
        filling.close()
    if filling.seen < kept:
        return False
    if not filling.seen:
        raise ValueError("The examples' input_fn returned no data for frozen_features.")
    filling.finish()
    log.info("Computed the frozen layers' outputs for %d examples in %.1f s.", filling.seen, time.monotonic() - start)
    return True


class _Filling:
    """Adds the rows that a store lacks, batch by batch.

    Attributes:
      seen: the number of examples taken.
    """

    def __init__(
        self,
        store: _Store,
        features: FrozenFeatures,
        dataset: tf.data.Dataset,
        compute: Callable[[Any], list[np.ndarray]],
    ) -> None:
        self._store = store
        self._features = features
        self._dataset = dataset
        self._compute = compute
        self._kept = store.rows  # the rows of an earlier process
        self.seen = 0
        self._digests: list[Any] = []  # of the examples seen, one for each leaf
        self._good: tuple[int, str] | None = None  # the number of valid rows, and the digest of their examples
        self._bar: Any = None
        self._committed = time.monotonic()

    def take(self, batch: Any) -> bool:
        """Adds the rows for a batch of examples; returns False if the store has rows for other examples instead."""
        inputs, *rest = _element(batch)
        leaves = [leaf.numpy() for leaf in tf.nest.flatten((inputs, rest))]
        size = len(leaves[0])
        self._digests = self._digests or [hashlib.sha256() for _ in leaves]
        known = min(max(self._kept - self.seen, 0), size)
        if known and not self._knows(leaves, known):
            return False
        self.seen += size
        if known < size:
            inputs, rest = tf.nest.map_structure(lambda leaf: leaf[known:], (inputs, rest))
            count = self._add(inputs, rest, size)
            _update(self._digests, leaves, slice(known, size))
            self._good = self._store.rows, _hex(self._digests)
            self._bar.update(count)
            self._commit_in_time()
        return True

    def _knows(self, leaves: list[np.ndarray], known: int) -> bool:
        """Returns whether the store's rows may be those of the first `known` examples of a batch."""
        _update(self._digests, leaves, slice(known))
        is_last = self.seen + known == self._kept
        return not is_last or _hex(self._digests) == self._store.digest

    def _add(self, inputs: Any, rest: Any, size: int) -> int:
        """Computes and adds rows for examples of a batch of `size`; returns their number."""
        computed = self._compute(inputs)
        rows = [_narrowed(array, self._features.dtype) for array in computed]
        rows += [leaf.numpy() for leaf in tf.nest.flatten(rest)]
        at_most = self._dataset.cardinality().numpy() * size
        if self._bar is None:
            _check_kinds(rows)
            _check_each_alone(self._compute, inputs, computed)
            self._bar = _bar(self._store, rows, at_most)
        self._store.require_room(rows, len(rows[0]))
        self._store.append(rows, at_most)
        return len(rows[0])

    def _commit_in_time(self) -> None:
        if self._good is not None and time.monotonic() - self._committed > _COMMIT_SECONDS:
            self._store.commit(self._good[1])
            self._committed = time.monotonic()

    def keep(self) -> None:
        """Makes the rows added so far valid, after an error."""
        if self._good is not None:
            self._store.rows, digest = self._good
            self._store.commit(digest)

    def finish(self) -> None:
        """Makes all rows valid; they are those of all examples."""
        self._store.commit(_hex(self._digests), is_complete=True)

    def close(self) -> None:
        """Ends the progress bar."""
        if self._bar is not None:
            self._bar.close()


def _bar(store: _Store, rows: list[np.ndarray], at_most: int) -> tqdm.tqdm:
    """Logs the size, raises an error if it does not fit, and returns the progress bar; `at_most` < 0 means unknown."""
    shapes = ", ".join(f"{tf.as_dtype(row.dtype).name}{list(row.shape[1:])}" for row in rows)
    if at_most < 0:
        total, size = None, f"{_mb(store.require_room(rows, 1))} per example"
    else:
        total, size = at_most, _mb(store.require_room(rows, at_most - store.rows))
    count = "the examples" if total is None else f"at most {total} examples"
    log.info("Computing the frozen layers' outputs for %s: with the labels %s each, %s.", count, shapes, size)
    return tqdm.tqdm(desc=f"frozen layers, {size}", total=total, initial=store.rows, unit="example", disable=None)


def _check_each_alone(compute: Callable[[Any], list[np.ndarray]], inputs: Any, computed: list[np.ndarray]) -> None:
    """Raises ValueError if the outputs for an example depend on the other examples of its batch."""
    alone = compute(tf.nest.map_structure(lambda leaf: leaf[:1], inputs))
    for together, one in zip(computed, alone, strict=True):
        together, one = together[:1].astype(np.float64), one.astype(np.float64)
        scale = np.max(np.abs(together), initial=0.0)
        if not np.allclose(together, one, rtol=0.01, atol=0.01 * scale, equal_nan=True):  # kernels round differently
            raise ValueError(
                "The frozen layers' outputs for an example depend on its batch, so they cannot be computed once; "
                "train without frozen_features."
            )


def _check_kinds(rows: list[np.ndarray]) -> None:
    for row in rows:
        if row.dtype.hasobject:
            raise ValueError("frozen_features keeps numbers, but the examples have string labels; map them to numbers")


def _narrowed(array: np.ndarray, dtype: str) -> np.ndarray:
    """Returns `array`, converted to the NumPy dtype of that name if it is float32."""
    if array.dtype != np.float32 or dtype == "float32":
        return array
    with np.errstate(over="ignore"):
        narrowed = array.astype(dtype)
    if not np.array_equal(np.isfinite(array), np.isfinite(narrowed)):
        raise ValueError(f"float16 cannot represent features of {np.abs(array).max():.3g}; use dtype=float32")
    return narrowed


def _element(batch: Any) -> tuple:
    """Returns a tuple of the features and, if there are any, labels and sample weights."""
    return batch if isinstance(batch, tuple) else (batch,)


def _first_example(dataset: tf.data.Dataset) -> str:
    for batch in iterate(dataset):
        leaves = [leaf.numpy() for leaf in tf.nest.flatten(batch)]
        digests = [hashlib.sha256() for _ in leaves]
        _update(digests, leaves, slice(1))
        return _hex(digests)
    raise ValueError("The examples' input_fn returned no data for frozen_features.")


def _update(digests: list[Any], leaves: list[np.ndarray], rows: slice) -> None:
    """Adds the rows to the digests, one for each leaf; the result does not depend on how rows are batched."""
    for digest, leaf in zip(digests, leaves, strict=True):
        digest.update(repr(leaf[rows].tolist()).encode() if leaf.dtype.hasobject else leaf[rows].tobytes())


def _hex(digests: list[Any]) -> str:
    return hashlib.sha256(b"".join(digest.digest() for digest in digests)).hexdigest()


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    lock = filelock.FileLock(f"{folder}.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        log.info("Waiting for another process to fill %s.", folder)
        lock.acquire()
    try:
        with explaining_full_disk(folder):
            yield
    finally:
        lock.release()


def _numpy_dtype(name: str) -> Any:
    return tf.as_dtype(name).as_numpy_dtype


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
