"""The outputs of a model's frozen layers for every example: computed once, kept in memory or on disk."""

import dataclasses
import functools
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.distribution.replica_input import call_input_fn
from estimator_train._engine.host import time_spent
from estimator_train._engine.host.array_store import Column, bytes_of, free_bytes, read_manifest
from estimator_train._engine.host.dataset_iterators import iterate
from estimator_train._engine.host.file_lock import one_at_a_time
from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.full_disk import explaining_full_disk
from estimator_train._engine.host.progress_bar import ProgressOfPass
from estimator_train._engine.input_fns.frozen_features import FrozenFeatures
from estimator_train._engine.input_fns.protocols import HasFingerprint
from estimator_train._engine.input_fns.returned import as_tuple
from estimator_train._engine.keras.device_rows import DeviceRows
from estimator_train._engine.keras.protocols import FrozenPart
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.types import Nest, Params, Strategy

log = tf.get_logger()

_Arrays = list[np.ndarray]
_Compute = Callable[[Nest], _Arrays]  # from a batch of features to the frozen outputs

_COMMIT_SECONDS = 5  # a killed process loses at most this much computing
_RECORDED = ("rows", "digest", "is_complete")  # the attributes of a `_Store` in its manifest


@dataclasses.dataclass(frozen=True, eq=False)
class FeatureBatches:
    """An input_fn over the frozen layers' outputs for the examples; computes them unless `held` has them.

    Elements are batches (tuple of frozen outputs, labels, ...), with whatever else the examples' elements contain.
    Follows the protocol `input_fns.protocols.StartsAnywhere`.
    """

    features: FrozenFeatures
    frozen: FrozenPart  # the part of the model that computes the outputs, created in the scope of `strategy`
    strategy: Strategy
    held: dict  # keeps the computed outputs between calls
    rows: DeviceRows  # the outputs on devices where they fit: elements then have the examples' numbers instead

    def starting_at(self, examples: int, seed: int) -> "FeatureBatches":
        return dataclasses.replace(self, features=self.features.starting_at(examples, seed))

    def __call__(
        self, mode: str, params: Params, config: RunConfig, input_context: tf.distribute.InputContext
    ) -> tf.data.Dataset:
        dataset = call_input_fn(
            self.features.examples, mode=mode, params=params, config=config, input_context=input_context
        )
        spec = getattr(dataset, "element_spec", None)
        if not all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(spec)):
            raise ValueError(f"frozen_features takes a tf.data.Dataset of batches of dense tensors, got {dataset}")
        inputs, *rest = as_tuple(spec)
        frozen_id = self._id(input_context)
        if frozen_id not in self.held:
            self.held.clear()
            compute = _compiled(self.frozen, self.strategy, input_context.num_input_pipelines, inputs)
            # input_fns are called on the CPU; these layers may run elsewhere
            with tf.device(None), time_spent.counted_as(time_spent.FEATURES):
                columns = columns_of(self.features, dataset, compute, frozen_id)
            count = len(columns) - len(tf.nest.flatten(rest))
            self.held[frozen_id] = columns[:count], columns[count:]
        outputs, others = self.held[frozen_id]
        kept: Nest = tuple(range(len(outputs)))
        if self.rows.hold(outputs, self.frozen.weights[0]):
            outputs, kept = [np.arange(len(outputs[0]))], 0
        return self.features.batches([*outputs, *others], (kept, *rest), input_context)

    def _id(self, input_context: tf.distribute.InputContext) -> str:
        """Returns a hex digest of what the outputs depend on, apart from the examples."""
        place = input_context.input_pipeline_id, input_context.num_input_pipelines
        identity = (1, self.frozen.fingerprint(), self.features.dtype, place)
        return hashlib.sha256(repr(identity).encode()).hexdigest()


def _compiled(frozen: FrozenPart, strategy: Strategy, processes: int, spec: Nest) -> _Compute:
    """Returns a function from features like `spec` to the frozen outputs; each local replica computes a share."""
    local_replicas = strategy.num_replicas_in_sync // processes

    def share(features: Nest) -> Nest:
        # All replicas take slices of the same length, padded with the last example. They cannot be empty: oneDNN's
        # convolutions give an empty batch a wrong shape.
        if local_replicas > 1:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group % local_replicas
            size = _length(features)
            length = -(-size // local_replicas)
            rows = tf.minimum(replica * length + tf.range(length), size - 1)
            features = tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), features)
        return frozen(features, training=True)

    spec = tf.nest.map_structure(lambda each: tf.TensorSpec([None, *each.shape[1:]], each.dtype), spec)

    @tf.function(autograph=False, input_signature=[spec])
    def compute(features: Nest) -> list[tf.Tensor]:
        results = map(strategy.experimental_local_results, strategy.run(share, args=(features,)))
        return [tf.concat(result, axis=0)[: _length(features)] for result in results]

    return lambda features: [result.numpy() for result in compute(features)]


def _length(features: Nest) -> tf.Tensor:
    return tf.shape(tf.nest.flatten(features)[0])[0]


def columns_of(features: FrozenFeatures, dataset: tf.data.Dataset, compute: _Compute, frozen_id: str) -> _Arrays:
    """Returns arrays of (examples, ...) for all frozen outputs, and for the labels and weights of the examples.

    `dataset` has the examples in batches. `frozen_id` identifies `compute`, in this process and in later ones.
    """
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError("frozen_features takes each example once, and the examples' input_fn has no end: num_epochs=1")
    if features.directory is None:
        store = _Store()
        _fill(store, features, dataset, compute)
        return store.arrays()
    fingerprint = None
    if isinstance(features.examples, HasFingerprint):
        fingerprint = features.examples.fingerprint()
    examples_id = fingerprint or _first_example(dataset)
    name = hashlib.sha256(f"{frozen_id} {examples_id}".encode()).hexdigest()[:16]
    directory = os.path.join(features.directory, name)
    os.makedirs(directory, exist_ok=True)
    waiting = functools.partial(log.info, "Waiting for another process to fill %s.", directory)
    with one_at_a_time(f"{directory}.lock", waiting), explaining_full_disk(directory):
        store = _Store(directory)
        is_known = store.is_complete and fingerprint is not None
        if not is_known and not _fill(store, features, dataset, compute):
            log.info("The examples of %s have changed; computing its features again.", directory)
            store.clear()
            _fill(store, features, dataset, compute)
        return store.arrays()


class _Store:
    """Columns in memory or in the files of a directory, with one row for each example.

    A manifest in the directory, always replaced as a whole, records how many rows are valid. Anything that a killed
    process wrote after them is cut off. `digest` is that of the examples of these rows.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory: Any = directory  # mypy does not see that what needs one is only called with one
        self.rows, self.is_complete = 0, False
        self.digest: str | None = None
        self._columns: list[Column] = []
        if directory is not None and not self._load():
            self.clear()

    def clear(self) -> None:
        """Deletes all rows from disk; processes that have mapped the files keep their view of them."""
        for name in sorted(os.listdir(self._directory), key=lambda name: name != "manifest.json"):
            os.remove(os.path.join(self._directory, name))
        self.rows, self.digest, self.is_complete, self._columns = 0, None, False, []

    def append(self, arrays: list[np.ndarray], at_most: int = -1) -> None:
        """Adds rows, not yet valid, to all columns, which will have `at_most` in the end, below 0 an unknown number.

        Raises ValueError if the rows differ from earlier ones in type or shape.
        """
        if not self._columns:
            self._columns = [
                Column(array.shape[1:], array.dtype, self._path(index)) for index, array in enumerate(arrays)
            ]
        kinds = [(tf.as_dtype(array.dtype).name, array.shape[1:]) for array in arrays]
        held = self._kinds()
        if kinds != held:
            raise ValueError(
                f"frozen_features needs examples of one shape; after {held} came {kinds}: resize or pad them"
            )
        for column, array in zip(self._columns, arrays, strict=True):
            column.append(array, at_most)
        self.is_complete = False

    def commit(self) -> None:
        """Writes the valid rows to disk, if there is a directory, and then the manifest that records them."""
        if self._directory is None:
            return
        for column in self._columns:
            column.sync()
        manifest = {name: getattr(self, name) for name in _RECORDED} | {"columns": self._kinds()}
        write_whole(os.path.join(self._directory, "manifest.json"), json.dumps(manifest))

    def require_room(self, arrays: list[np.ndarray], rows: int) -> int:
        """Returns the bytes of `rows` rows like those of `arrays`; raises MemoryError or OSError if they do not fit."""
        size = sum(array.nbytes // len(array) for array in arrays) * rows
        free = free_bytes(self._directory)
        if size > free:
            kind: type[Exception]
            kind, place, remedy = MemoryError, "memory", "use a directory as cache"
            if self._directory is not None:
                kind, place, remedy = OSError, f"the disk of {self._directory}", "use another directory"
            raise kind(
                f"The frozen layers' outputs take {_mb(size)}, and {place} has {_mb(free)} left; {remedy}, or "
                'dtype="float16".'
            )
        return size

    def arrays(self) -> list[np.ndarray]:
        """Returns all columns as arrays of (rows, ...); columns on disk are mapped into memory."""
        return [column.array() for column in self._columns]

    def _load(self) -> bool:
        path = os.path.join(self._directory, "manifest.json")
        state = read_manifest(path, self._state_in, "the features are computed again")
        if state is None:
            return False
        for index, size in enumerate(state.pop("sizes")):
            path = os.path.join(self._directory, f"{index}.rows")
            if not os.path.exists(path) or os.path.getsize(path) < size:
                return False
            if os.path.getsize(path) > size:
                os.truncate(path, size)
        vars(self).update(state)
        return True

    def _state_in(self, manifest: dict) -> dict[str, Any]:
        columns = [
            Column(tuple(shape), tf.as_dtype(name).as_numpy_dtype, self._path(index), manifest["rows"])
            for index, (name, shape) in enumerate(manifest["columns"])
        ]
        state = {name: manifest[name] for name in _RECORDED}
        return state | {"_columns": columns, "sizes": [column.nbytes for column in columns]}

    def _kinds(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(tf.as_dtype(column.dtype).name, column.shape) for column in self._columns]

    def _path(self, index: int) -> str | None:
        return None if self._directory is None else os.path.join(self._directory, f"{index}.rows")


def _fill(store: _Store, features: FrozenFeatures, dataset: tf.data.Dataset, compute: _Compute) -> bool:
    """Adds the rows that the store lacks; returns False if its rows belong to other examples."""
    start, filling = time.monotonic(), _Filling(store, features, compute, dataset.cardinality().numpy())
    try:
        if not all(map(filling.add, iterate(dataset))) or filling.seen < filling.kept:
            return False
    except BaseException:
        store.commit()
        raise
    finally:
        filling.close()
    if not filling.seen:
        raise ValueError("The examples' input_fn returned no data for frozen_features.")
    store.is_complete = True
    store.commit()
    log.info("Computed the frozen layers' outputs for %d examples in %.1f s.", filling.seen, time.monotonic() - start)
    return True


class _Filling:
    """Fills a store with the rows of batches, after the `kept` rows that it had; `seen` counts the examples so far."""

    def __init__(self, store: _Store, features: FrozenFeatures, compute: _Compute, num_batches: int) -> None:
        self._store, self._features, self._compute, self._num_batches = store, features, compute, num_batches
        self.kept, self.seen = store.rows, 0
        self._digests: list[Any] = []
        self._bar: ProgressOfPass | None = None
        self._is_begun = False
        self._committed = time.monotonic()

    def add(self, batch: Nest) -> bool:
        """Adds the rows of a batch that the store lacks; returns False if its rows belong to other examples."""
        inputs, *rest = as_tuple(batch)
        leaves = [leaf.numpy() for leaf in tf.nest.flatten((inputs, rest))]
        self._digests = self._digests or [hashlib.sha256() for _ in leaves]
        known = min(max(self.kept - self.seen, 0), len(leaves[0]))
        self.seen += len(leaves[0])
        if known:
            _update(self._digests, leaves, slice(known))
            is_last = self.seen >= self.kept
            if is_last and _hex(self._digests) != self._store.digest:
                return False
        if known < len(leaves[0]):
            at_most = self._num_batches * len(leaves[0])
            new_inputs, new_rest = tf.nest.map_structure(lambda leaf: leaf[known:], (inputs, rest))
            self._append(new_inputs, new_rest, at_most)
            _update(self._digests, leaves, slice(known, None))
            self._store.rows, self._store.digest = self.seen, _hex(self._digests)
            if time.monotonic() - self._committed > _COMMIT_SECONDS:
                self._store.commit()
                self._committed = time.monotonic()
        return True

    def _append(self, inputs: Nest, rest: Nest, at_most: int) -> None:
        computed = self._compute(inputs)
        rows = [_narrowed(array, self._features.dtype) for array in computed]
        rows += [leaf.numpy() for leaf in tf.nest.flatten(rest)]
        if not self._is_begun:
            self._is_begun = True
            if any(row.dtype.hasobject for row in rows):
                raise ValueError(
                    "frozen_features keeps numbers, but the examples have string labels; map them to numbers"
                )
            _check_each_alone(self._compute, inputs, computed)
            self._bar = _progress(self._store, rows, at_most)
        self._store.require_room(rows, len(rows[0]))
        self._store.append(rows, at_most)
        if self._bar is not None:
            self._bar.update(len(rows[0]))

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _progress(store: _Store, rows: list[np.ndarray], at_most: int) -> ProgressOfPass | None:
    """Logs the size, raises an error if it does not fit, and returns what shows the progress, None if only errors show.

    `at_most` below 0 means an unknown number of examples.
    """
    shapes = ", ".join(f"{tf.as_dtype(row.dtype).name}{list(row.shape[1:])}" for row in rows)
    if at_most < 0:
        total, count, size = None, "the examples", f"{_mb(store.require_room(rows, 1))} per example"
    else:
        total, count = at_most, f"at most {at_most} examples"
        size = _mb(store.require_room(rows, at_most - store.rows))
    log.info("Computing the frozen layers' outputs for %s: with the labels %s each, %s.", count, shapes, size)
    if not log.isEnabledFor(logging.WARNING):  # --quiet
        return None
    return ProgressOfPass(f"frozen layers, {size}", total, store.rows)


def _check_each_alone(compute: _Compute, inputs: Nest, computed: list[np.ndarray]) -> None:
    alone = compute(tf.nest.map_structure(lambda leaf: leaf[:1], inputs))
    for together, one in zip(computed, alone, strict=True):
        together, one = together[:1].astype(np.float64), one.astype(np.float64)
        scale = np.max(np.abs(together), initial=0.0)
        if not np.allclose(together, one, rtol=0.01, atol=0.01 * scale, equal_nan=True):  # kernels round differently
            raise ValueError(
                "The frozen layers' outputs for an example depend on its batch, so they cannot be computed once; "
                "train without frozen_features."
            )


def _narrowed(array: np.ndarray, dtype: str) -> np.ndarray:
    if array.dtype != np.float32 or dtype == "float32":
        return array
    with np.errstate(over="ignore"):
        narrowed = array.astype(dtype)
    if not np.array_equal(np.isfinite(array), np.isfinite(narrowed)):
        raise ValueError(f"float16 cannot represent features of {np.abs(array).max():.3g}; use dtype=float32")
    return narrowed


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
        digest.update(bytes_of(leaf[rows]))


def _hex(digests: list[Any]) -> str:
    return hashlib.sha256(b"".join(digest.digest() for digest in digests)).hexdigest()


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
