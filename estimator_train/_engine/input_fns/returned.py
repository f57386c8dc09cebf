"""Handles input_fns that return (features, labels) as arrays or v1 graph tensors instead of a tf.data.Dataset."""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train._engine.types import Nest, Session

v1 = tf.compat.v1

# What TensorFlow says of a dataset, an iterator or a table of eager mode or of another graph.
_OUTSIDE = "dataset: .* was created in|EagerTensor|Eager-defined Tensor|Tensor.op is undefined|from the same graph"


def as_pair(batch: Any) -> tuple[Any, Any]:
    """Returns (features, labels) for a batch that an input_fn returns; labels may be None."""
    if not isinstance(batch, (list, tuple)):
        return batch, None
    if len(batch) != 2:
        raise ValueError(f"input_fn should return (features, labels) as a len 2 tuple, got {len(batch)}: {batch!r}")
    features, labels = batch
    return features, labels


def as_tuple(batch: Any) -> tuple[Any, ...]:
    """Returns a dataset's batch, whose features may stand alone, as (features[, labels[, weights]])."""
    return batch if isinstance(batch, tuple) else (batch,)


def are_arrays(result: Any) -> bool:
    """Returns whether `result` contains values, none of which is a tensor."""
    values = [value for value in tf.nest.flatten(result) if value is not None]
    return bool(values) and not any(map(tf.is_tensor, values))


@contextlib.contextmanager
def explaining_outside_data() -> Iterator[None]:
    """Explains TensorFlow's errors if an input_fn that the block calls in a v1 graph uses parts of other graphs."""
    try:
        yield
    except (AttributeError, RuntimeError, ValueError) as error:
        if not re.search(_OUTSIDE, str(error)):
            raise
        raise ValueError(
            "A tf.data.Dataset, an iterator or a table that the input_fn uses was created outside of it: create each "
            "part of the input inside the input_fn, which is called in a graph of its own."
        ) from error


def dataset_of_arrays(result: Any, endless: bool) -> tf.data.Dataset:
    """Returns a dataset of the arrays that an input_fn returns, as a single batch, repeated forever if `endless`."""
    dataset = tf.data.Dataset.from_tensors(_element(*as_pair(result)))
    return dataset.repeat() if endless else dataset


def dataset_of_graph(call_input_fn: Callable[[], Any]) -> tf.data.Dataset:
    """Returns a dataset of the tensors that an input_fn makes in a v1 graph, for example with an iterator or queues.

    A v1 session, in which hooks may run ops of the graph, evaluates the tensors for every batch until one of them
    raises OutOfRangeError. Tensors that do not depend on an iterator or a queue never raise it.
    """
    with tf.Graph().as_default() as graph, explaining_outside_data():
        tensors = tf.nest.map_structure(tf.convert_to_tensor, _element(*as_pair(_tensors(call_input_fn()))))
    signature = tf.nest.map_structure(tf.type_spec_from_value, tensors)

    sessions: list[Any] = []

    def open_session() -> Session:
        """Returns the session, which the first batch opens, or earlier a hook that initializes an iterator."""
        if not sessions:
            with graph.as_default():
                sessions.append(v1.train.MonitoredSession())
        return sessions[0]

    graph.add_to_collection(step_outputs.INPUT_SESSION, open_session)

    def batches() -> Iterator[Any]:
        session = open_session()
        try:
            while not session.should_stop():
                try:
                    batch = session.run(tensors)
                except tf.errors.OutOfRangeError:
                    return
                yield batch
        finally:
            sessions.clear()
            session.close()

    with eager_mode():
        return tf.data.Dataset.from_generator(batches, output_signature=signature)


def _tensors(result: Nest | tf.data.Dataset) -> Nest:
    """Returns what an input_fn returns in a v1 graph as tensors; a session initializes the iterator of a dataset."""
    if not isinstance(result, tf.data.Dataset):
        return result
    iterator = v1.data.make_initializable_iterator(result)
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    return iterator.get_next()


def _element(features: Nest, labels: Nest | None) -> Nest:
    return features if labels is None else (features, labels)
