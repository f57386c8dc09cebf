"""Handles input_fns that return (features, labels) as arrays or v1 graph tensors instead of a tf.data.Dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train._engine.types import Nest

v1 = tf.compat.v1


def as_pair(batch: Any) -> tuple[Any, Any]:
    """Returns (features, labels) for a batch that an input_fn returns; labels may be None.

    Raises:
      ValueError: the batch is a tuple or list whose length is not 2.
    """
    if not isinstance(batch, (list, tuple)):
        return batch, None
    if len(batch) != 2:
        raise ValueError(f"input_fn should return (features, labels) as a len 2 tuple, got {len(batch)}: {batch!r}")
    features, labels = batch
    return features, labels


def are_arrays(result: Any) -> bool:
    """Returns whether `result` contains values, none of which is a tensor."""
    values = [value for value in tf.nest.flatten(result) if value is not None]
    return bool(values) and not any(map(tf.is_tensor, values))


def dataset_of_arrays(result: Any, endless: bool) -> tf.data.Dataset:
    """Returns a dataset of the arrays that an input_fn returns, as a single batch, repeated forever if `endless`."""
    dataset = tf.data.Dataset.from_tensors(_element(*as_pair(result)))
    return dataset.repeat() if endless else dataset


def dataset_of_graph(call_input_fn: Callable[[], Any]) -> tf.data.Dataset:
    """Returns a dataset of the tensors that an input_fn makes in a v1 graph, for example with an iterator or queues.

    A v1 session evaluates the tensors for every batch until one of them raises OutOfRangeError. Tensors that do not
    depend on an iterator or a queue never raise it.
    """
    with tf.Graph().as_default() as graph:
        result = call_input_fn()
        if isinstance(result, tf.data.Dataset):
            iterator = v1.data.make_initializable_iterator(result)
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            result = iterator.get_next()
        tensors = tf.nest.map_structure(tf.convert_to_tensor, _element(*as_pair(result)))
    signature = tf.nest.map_structure(tf.type_spec_from_value, tensors)

    def batches() -> Iterator[Any]:
        with graph.as_default():
            session = v1.train.MonitoredSession()
        try:
            while not session.should_stop():
                try:
                    batch = session.run(tensors)
                except tf.errors.OutOfRangeError:
                    return
                yield batch
        finally:
            session.close()

    with eager_mode():
        return tf.data.Dataset.from_generator(batches, output_signature=signature)


def _element(features: Nest, labels: Nest | None) -> Nest:
    return features if labels is None else (features, labels)
