"""Distributes the dataset of an input_fn over the replicas of a strategy."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

from estimator_train._engine.argument_names import taken_by
from estimator_train._engine.autograph import unconverted
from estimator_train._engine.remedies import ArgumentError, Setting
from estimator_train._engine.types import InputFn, Nest, Strategy

DatasetFn: TypeAlias = Callable[[tf.distribute.InputContext], tf.data.Dataset]
Preprocess: TypeAlias = Callable[[Nest], Nest] | None


def call_input_fn(input_fn: InputFn, **offered: Any) -> Any:
    """Calls `input_fn` on the CPU with those of mode, params, config and input_context that it takes.

    If `input_fn` has no parameter input_context, its dataset is sharded according to its auto_shard_policy, if set.
    Raises ValueError if it returns an iterator, a generator or a Sequence of Keras, or, with `deterministic` of the
    config, a dataset without a fixed order.
    """
    with tf.device("/cpu:0"):
        result = input_fn(**taken_by(input_fn, offered))
        _check_is_no_iterator(result)
        if not isinstance(result, tf.data.Dataset):
            return result
        _check_order(result, offered.get("config"))
        if "input_context" not in offered or "input_context" in inspect.signature(input_fn).parameters:
            return result
        return _auto_sharded(result, offered["input_context"])


def _check_is_no_iterator(result: Any) -> None:
    """Raises ValueError for an iterator, of which TensorFlow would make a single tensor; those of Keras never end."""
    for part in tf.nest.flatten(result):
        if hasattr(part, "__next__") or hasattr(part, "on_epoch_end"):  # an iterator, or a Sequence of either Keras
            raise ValueError(
                f"input_fn returns {part!r}, but it must return a tf.data.Dataset, or features and labels; make a "
                "Dataset of an iterator, a generator or a Sequence by tf.data.Dataset.from_generator or "
                "et.input_fns.generator."
            )


def _check_order(dataset: tf.data.Dataset, config: Any) -> None:
    if config is not None and config.deterministic and dataset.options().deterministic is False:
        raise ArgumentError(
            Setting("deterministic", "deterministic={}", True),
            " of a RunConfig needs data in a fixed order, and the input_fn has options().deterministic=False, as with "
            "deterministic=False or service= of image_files; leave one of them out",
        )


@functools.cache  # a program that trains often has read it
def log_batch(taken: str, replicas: int) -> None:
    """Logs once what a step on several replicas takes, because scripts written for `fit` multiply the batch by them."""
    if replicas > 1:
        tf.get_logger().warning(
            "Each step takes %s over %d replicas: the batch size of an input_fn is per replica; see "
            "docs/distribution.md.",
            taken,
            replicas,
            extra={"examples_of_step": taken},  # programs that say it themselves hide the line
        )


def _auto_sharded(dataset: tf.data.Dataset, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """Returns this input pipeline's shard of `dataset` if its options ask for one; an unset policy reads as AUTO."""
    policies = tf.data.experimental.AutoShardPolicy
    if context.num_input_pipelines == 1:
        return dataset
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if policy in (policies.AUTO, policies.OFF):
        return dataset
    # experimental_distribute_dataset shards like this, but would also split batches over the replicas. Datasets hold
    # sparse and ragged tensors as variants.
    specs = [
        (spec.dtype, spec.shape) if isinstance(spec, tf.TensorSpec) else (tf.variant, tf.TensorShape(None))
        for spec in tf.nest.flatten(dataset.element_spec)
    ]
    types, shapes = zip(*specs, strict=True)
    sharded = tf.raw_ops.AutoShardDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        num_workers=context.num_input_pipelines,
        index=context.input_pipeline_id,
        auto_shard_policy=int(policy),
        num_replicas=context.num_replicas_in_sync,
        output_types=types,
        output_shapes=shapes,
    )
    return tf.data.experimental.from_variant(sharded, dataset.element_spec)


def distribute(
    strategy: Strategy, dataset_fn: DatasetFn, preprocess: Preprocess = None
) -> tf.distribute.DistributedDataset:
    """Distributes the dataset of `dataset_fn(input_context)` over the replicas of `strategy`, a batch each per step.

    If the last batches or examples cannot be divided by the number of replicas, they are split such that every example
    is used once and no replica gets an empty batch. `preprocess` is the function that replicas apply to the features of
    a batch; before it, examples of different batches may differ in shape.
    """
    share = functools.partial(_share_out, preprocess=preprocess)
    return strategy.distribute_datasets_from_function(_shared_out(strategy, dataset_fn, share))


def distribute_in_graph(strategy: Strategy, dataset_fn: DatasetFn, drop_incomplete: bool) -> tuple[Nest, tf.Operation]:
    """Like `distribute`, for a v1 graph; returns (the batch, per replica if there are several, the initializer op).

    `drop_incomplete`: whether too few last batches for all replicas are dropped, as in tf.estimator's training.
    """
    share = _drop_incomplete if drop_incomplete else _share_out
    iterator = strategy.make_input_fn_iterator(_shared_out(strategy, dataset_fn, share))
    return iterator.get_next(), tf.group(iterator.initializer)


def batch_size(batch: Nest) -> tf.Tensor:
    """Returns the number of examples in a batch of any structure, an int64 scalar tensor."""
    component = next((part for part in tf.nest.flatten(batch) if part is not None and part.shape.rank != 0), None)
    if component is None:  # only scalars: counts as one example
        return tf.constant(1, tf.int64)
    if isinstance(component, tf.SparseTensor):
        return component.dense_shape[0]
    if isinstance(component, tf.RaggedTensor):
        return component.nrows(out_type=tf.int64)
    return tf.shape(component, out_type=tf.int64)[0]


def _shared_out(strategy: Strategy, dataset_fn: DatasetFn, share: Callable[..., tf.data.Dataset]) -> DatasetFn:
    def shared_out(input_context: tf.distribute.InputContext) -> tf.data.Dataset:
        replicas = strategy.num_replicas_in_sync // input_context.num_input_pipelines
        dataset = dataset_fn(input_context)
        if replicas == 1 or _ends_with_whole_group(dataset, replicas):
            return dataset
        return share(dataset, replicas)

    return shared_out


def _ends_with_whole_group(dataset: tf.data.Dataset, replicas: int) -> bool:
    """Returns whether `dataset` is known to be endless or to end with a batch for every replica; False in v1 graphs."""
    count = tf.get_static_value(dataset.cardinality())
    return count is not None and (count == tf.data.INFINITE_CARDINALITY or (count >= 0 and count % replicas == 0))


def _drop_incomplete(dataset: tf.data.Dataset, replicas: int) -> tf.data.Dataset:
    """Drops the last batches of `dataset` if they are too few for one batch per replica."""
    if _has_none(dataset.element_spec):
        return _with_tensors_for_none(dataset, functools.partial(_drop_incomplete, replicas=replicas))
    windows = dataset.window(replicas, drop_remainder=True)
    return windows.flat_map(lambda *parts: tf.data.Dataset.zip(parts[0] if len(parts) == 1 else parts))


@unconverted
def _share_out(dataset: tf.data.Dataset, replicas: int, preprocess: Preprocess = None) -> tf.data.Dataset:
    """Splits the last batches of `dataset` to make the number of batches a multiple of `replicas`."""
    # Batches are grouped, one per replica. The batches after the last complete group are split evenly into one more
    # group. If that would leave a replica without an example, they are split together with the last complete group.
    if _has_none(dataset.element_spec):
        share = functools.partial(_share_out, replicas=replicas, preprocess=_filling(preprocess, dataset.element_spec))
        return _with_tensors_for_none(dataset, share)

    def group(index: tf.Tensor, window: Nest) -> tf.data.Dataset:
        # A window has a group and the next one, so the remainder is seen together with the last complete group.
        batches = tf.data.Dataset.zip(window)
        count = batches.cardinality()
        is_whole = count >= replicas
        ends_even = tf.equal(count % replicas, 0)  # in a v1 graph, == would compare objects
        splits_alone = ends_even | (_count_examples(batches.skip(replicas), unless=ends_even) >= replicas)
        kept = replicas * tf.cast(is_whole & splits_alone, tf.int64)
        # An incomplete group, unless it is the first, was split by the previous window.
        none_left = tf.where(is_whole, ends_even, index > 0)
        left = batches.skip(kept).take(tf.where(none_left, tf.constant(0, tf.int64), -1))
        if preprocess is not None:
            left = left.map(lambda features, *rest: (preprocess(features), *rest))
        return batches.take(kept).concatenate(_split_evenly(left, replicas, none_left))

    return dataset.window(2 * replicas, shift=replicas).enumerate().flat_map(group)


def _with_tensors_for_none(
    dataset: tf.data.Dataset, share: Callable[[tf.data.Dataset], tf.data.Dataset]
) -> tf.data.Dataset:
    """Returns `share` of a dataset of batches in which some parts are None, in whose places it gets tensors."""
    # In a window, each part becomes a dataset, and None cannot.
    spec = dataset.element_spec

    def map_batches(dataset: tf.data.Dataset, function: Callable[[Nest], Nest]) -> tf.data.Dataset:
        if isinstance(spec, tuple):
            return dataset.map(lambda *parts: function(parts))
        return dataset.map(function)

    return map_batches(share(map_batches(dataset, _with_tensors)), lambda batch: _with_none(batch, spec))


def _filling(preprocess: Preprocess, spec: Nest) -> Preprocess:
    """Returns `preprocess` for features of batches like `spec` that have tensors in the places of None."""
    of_features = spec[0] if isinstance(spec, tuple) else spec
    return preprocess and (lambda features: _with_tensors(preprocess(_with_none(features, of_features))))


def _has_none(spec: Nest) -> bool:
    return any(part == tf.type_spec_from_value(None) for part in tf.nest.flatten(spec))


def _with_tensors(batch: Nest) -> Nest:
    """Returns the batch with a number per example in place of every None; `unbatch` crashes on tensors without any."""
    numbers = tf.zeros([batch_size(batch)])
    return tf.nest.map_structure(lambda part: numbers if part is None else part, batch)


def _with_none(batch: Nest, spec: Nest) -> Nest:
    """Returns the batch with None in the places where `spec` has it."""
    return tf.nest.map_structure(lambda part, spec: None if _has_none(spec) else part, batch, spec)


def _split_evenly(batches: tf.data.Dataset, replicas: int, none: tf.Tensor) -> tf.data.Dataset:
    """Splits the examples, unless there are `none`, into `replicas` batches whose sizes differ by at most one."""
    count = _count_examples(batches, unless=none)
    message = f"{replicas} replicas need at least {replicas} examples, but the input_fn's dataset has fewer"
    count = _checked(count, tf.equal(count, 0) | (count >= replicas), message, count)
    joined = _in_parts(batches.unbatch(), count, replicas)
    specs = tf.nest.flatten(batches.element_spec)
    if all(not isinstance(spec, tf.TensorSpec) or spec.shape[1:].is_fully_defined() for spec in specs):
        return joined
    # Batches of other shapes, padded to the longest example of each, cannot be joined: they are cut into a batch for
    # every replica, or two.
    sizes, are_alike = _sizes_and_likeness(batches, unless=none)
    parts = _parts_of_each(sizes, replicas)
    message = (
        f"The last examples cannot be divided among {replicas} replicas: their batches differ in shape and are small. "
        "Make the shapes equal, the batches larger, or their number a multiple of the replicas. Sizes of the batches:"
    )
    parts = _checked(parts, are_alike | tf.reduce_all(parts <= sizes), message, sizes)
    cut = tf.data.Dataset.zip((batches, tf.data.Dataset.from_tensor_slices(parts))).flat_map(
        lambda batch, parts: _in_parts(tf.data.Dataset.from_tensors(batch).unbatch(), batch_size(batch), parts)
    )
    none, all_ = tf.constant(0, tf.int64), tf.constant(-1, tf.int64)
    return joined.take(tf.where(are_alike, all_, none)).concatenate(cut.take(tf.where(are_alike, none, all_)))


def _checked(value: tf.Tensor, holds: tf.Tensor, message: str, shown: tf.Tensor) -> tf.Tensor:
    """Returns `value` from an op that fails with `message` and the values of `shown` unless `holds`."""
    with tf.control_dependencies([tf.debugging.Assert(holds, [message, shown])]):
        return tf.identity(value)


def _in_parts(examples: tf.data.Dataset, count: tf.Tensor, parts: int | tf.Tensor) -> tf.data.Dataset:
    """Batches `examples`, of which there are `count`, to a number of parts whose sizes differ by at most one."""
    size, larger = count // parts, count % parts
    in_larger = larger * (size + 1)
    return examples.take(in_larger).batch(size + 1).concatenate(examples.skip(in_larger).batch(tf.maximum(size, 1)))


def _parts_of_each(sizes: tf.Tensor, replicas: int) -> tf.Tensor:
    """Returns how many parts to cut batches into for a multiple of `replicas`, cutting the largest part each time."""
    cuts = -tf.size(sizes) % replicas
    of_parts = tf.cast(sizes, tf.float32)[:, None] / tf.range(1, replicas + 1, dtype=tf.float32)
    cut = tf.math.top_k(tf.reshape(of_parts, [-1]), cuts).indices // replicas
    return 1 + tf.math.bincount(cut, minlength=tf.size(sizes), maxlength=tf.size(sizes), dtype=tf.int64)


def _sizes_and_likeness(batches: tf.data.Dataset, unless: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the sizes of the batches, none if `unless` is true, and whether their examples have equal shapes."""

    def with_batch(state: tuple[tf.Tensor, tf.Tensor], *batch: Nest) -> tuple[tf.Tensor, tf.Tensor]:
        sizes, shapes = state
        dense = [part for part in tf.nest.flatten(batch) if isinstance(part, tf.Tensor)]
        shape = tf.strings.format("{}", [tf.concat([tf.shape(part)[1:] for part in dense], 0)], summarize=-1)
        return tf.concat([sizes, [batch_size(batch)]], 0), tf.concat([shapes, [shape]], 0)

    empty = tf.zeros([0], tf.int64), tf.zeros([0], tf.string)
    sizes, shapes = tf.cond(unless, lambda: empty, lambda: batches.reduce(empty, with_batch))
    return sizes, tf.size(tf.unique(shapes)[0]) <= 1


def _count_examples(batches: tf.data.Dataset, unless: tf.Tensor) -> tf.Tensor:
    """Counts the examples, or returns 0 if `unless` is true, because reducing a dataset inside another is slow."""
    zero = tf.constant(0, tf.int64)
    return tf.cond(unless, lambda: zero, lambda: batches.reduce(zero, lambda count, *batch: count + batch_size(batch)))
