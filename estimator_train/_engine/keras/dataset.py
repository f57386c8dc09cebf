"""Checks the dataset of an input_fn and distributes it to the replicas that train or evaluate a Keras model."""

import functools
import os
import re
from collections.abc import Callable

import tensorflow as tf

from estimator_train._engine.distribution.replica_input import call_input_fn, distribute
from estimator_train._engine.host import dataset_iterators
from estimator_train._engine.input_fns.order import share_of_pipeline, without_first
from estimator_train._engine.input_fns.protocols import on_host_and_device, starting_at
from estimator_train._engine.input_fns.returned import are_arrays, dataset_of_arrays, dataset_of_graph
from estimator_train._engine.model_fn import ModeKeys
from estimator_train._engine.types import Nest, Strategy


def distributed_dataset(
    strategy: Strategy, input_fn: Callable, position: tuple[int, int] | None, **offered: object
) -> tf.distribute.DistributedDataset:
    """The input_fn's data from a `ModelState.input_position`, for replicas, which do the rest of its preprocessing."""
    to_drop = 0
    if position is not None:
        input_fn, to_drop = starting_at(input_fn, *position)
    input_fn, preprocess = on_host_and_device(input_fn)

    def dataset_fn(input_context: tf.distribute.InputContext) -> tf.data.Dataset:
        dataset = _dataset(input_fn, input_context=input_context, **offered)
        pipelines = input_context.num_input_pipelines
        if pipelines > 1 and dataset.cardinality() == 0:
            raise ValueError(
                f"The input_fn has no data for worker {input_context.input_pipeline_id} of {pipelines}; shard examples "
                "instead of files, or use fewer workers."
            )
        spec = dataset.element_spec
        if isinstance(spec, tuple) and len(spec) > 3:
            raise ValueError(f"input_fn's data must be (features, labels) or (features, labels, weights), got: {spec}")
        if tf.config.get_visible_devices("GPU"):
            dataset = with_own_threads(dataset)
        return without_first(_with_ranks(dataset), share_of_pipeline(to_drop, input_context))

    dataset = distribute(strategy, dataset_fn, preprocess)
    if offered["mode"] == ModeKeys.PREDICT or not isinstance(dataset, tf.data.Dataset):
        return dataset
    return _read_onto_gpu(dataset, tf.zeros([]).device)


def with_own_threads(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns `dataset` with threads of its own, for all cores but one, unless its options give it some."""
    # Otherwise, decoding takes the threads of the step, of which one starts each kernel. Not on CPUs alone: a step
    # waits for its batch there with all cores idle but those that decode.
    if dataset.options().threading.private_threadpool_size is not None:
        return dataset
    options = tf.data.Options()
    options.threading.private_threadpool_size = max(len(os.sched_getaffinity(0)) - 1, 1)
    return dataset.with_options(options)


def is_gpu(device: str) -> bool:
    return "GPU" in device


def _read_onto_gpu(dataset: tf.data.Dataset, device: str) -> tf.distribute.DistributedDataset | tf.data.Dataset:
    """Reads the batches of a model without a strategy ahead onto its device, as a strategy does, if that is a GPU."""
    # Strings, and ragged tensors, which datasets hold as variants, stay on the host.
    specs = tf.nest.flatten(dataset.element_spec)
    are_numbers = all(isinstance(spec, tf.TensorSpec) and spec.dtype not in (tf.string, tf.variant) for spec in specs)
    if not (is_gpu(device) and are_numbers):
        return dataset
    return _strategy_on(device).distribute_datasets_from_function(lambda _: dataset)


_strategy_on = functools.cache(tf.distribute.OneDeviceStrategy)  # a step is traced again for another one's iterator


def _dataset(input_fn: Callable, **offered: object) -> tf.data.Dataset:
    """Calls `input_fn` in eager mode, or if it needs one or returns tensors, again in a v1 graph, as tf.estimator."""
    call = functools.partial(call_input_fn, input_fn, **offered)
    try:
        result = call()
    except (RuntimeError, ValueError) as error:
        # Placeholders, queues and initializable iterators raise an error about eager mode. numpy_input_fn returns a
        # dataset in eager mode, which cannot be unpacked as (features, labels).
        if not re.search("eager|values to unpack", str(error)):
            raise
        return dataset_of_graph(call)
    if isinstance(result, tf.data.Dataset):
        return result
    if are_arrays(result):
        return dataset_of_arrays(result, endless=offered["mode"] == ModeKeys.TRAIN)
    if result is None:
        raise ValueError("input_fn returns None; it must return a tf.data.Dataset, or features and labels.")
    return dataset_of_graph(call)


def _with_ranks(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Fills in unknown ranks of `dataset`, as from a generator without a signature, from its first element."""
    # Without ranks, Keras cannot resolve a metric like "acc", and TensorFlow cannot split a batch into examples.
    specs = dataset.element_spec
    if all(spec.shape.rank is not None for spec in tf.nest.flatten(specs) if isinstance(spec, tf.TensorSpec)):
        return dataset
    first = next(dataset_iterators.iterate(dataset.take(1)), None)
    if first is None:
        return dataset

    def with_rank(part: tf.Tensor | None, like: tf.Tensor | None) -> tf.Tensor | None:
        if part is None or like is None or part.shape.rank is not None:
            return part
        return tf.ensure_shape(part, [None] * like.shape.rank)

    def with_ranks(*element: Nest) -> Nest:
        return tf.nest.map_structure(with_rank, element if isinstance(specs, tuple) else element[0], first)

    return dataset.map(with_ranks)
