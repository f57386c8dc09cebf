"""The data of an input_fn for every replica of a strategy."""

from __future__ import annotations

import functools
import inspect

import tensorflow as tf


def call_input_fn(input_fn, **offered):
    """Calls `input_fn` on the CPU with those of `offered` (mode, params, config, input_context) that it names.

    The dataset of one that does not name input_context is sharded by its own auto_shard_policy, if it has one.
    """
    parameters = inspect.signature(input_fn).parameters
    bound = getattr(input_fn, "keywords", {})  # what a functools.partial has settled
    with tf.device("/cpu:0"):
        result = input_fn(**{name: offered[name] for name in offered if name in parameters and name not in bound})
        shards_itself = "input_context" in parameters or "input_context" not in offered
        if shards_itself or not isinstance(result, tf.data.Dataset):
            return result
        return _auto_sharded(result, offered["input_context"])


def _auto_sharded(dataset, context):
    """The part of `dataset` that is this input pipeline's, where its options ask for one: unset, they read as AUTO."""
    policies = tf.data.experimental.AutoShardPolicy
    if context.num_input_pipelines == 1:
        return dataset
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if policy in (policies.AUTO, policies.OFF):
        return dataset
    # This is how experimental_distribute_dataset shards, which would also split batches over the replicas. In a dataset
    # sparse and ragged tensors are variants.
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


def distribute(strategy, dataset_fn, preprocess=None):
    """The dataset of `dataset_fn(input_context)` as input for the replicas of `strategy`; its batches are per replica.

    Each step takes one batch a replica. Where the batches or examples of the data's end do not divide by the replicas,
    they are shared out, so that every example is used once and no replica is left with an empty batch.

    `preprocess`: what the replicas make of the features of a batch; examples of different batches are of one shape
    after it only.
    """
    share = functools.partial(_share_out, preprocess=preprocess)
    return strategy.distribute_datasets_from_function(_shared_out(strategy, dataset_fn, share))


def distribute_in_graph(strategy, dataset_fn, drop_incomplete):
    """As `distribute`, in a v1 graph: (the batch, an element or one a replica; the op that restarts the data).

    With `drop_incomplete` batches that are too few for all replicas are left out, as tf.estimator's training did.
    """
    share = _drop_incomplete if drop_incomplete else _share_out
    iterator = strategy.make_input_fn_iterator(_shared_out(strategy, dataset_fn, share))
    return iterator.get_next(), tf.group(iterator.initialize())


def batch_size(batch):
    """The number of examples in a batch of any structure, an int64 scalar tensor."""
    component = next((part for part in tf.nest.flatten(batch) if part.shape.rank != 0), None)
    if component is None:  # nothing that has examples: the whole counts as one
        return tf.constant(1, tf.int64)
    if isinstance(component, tf.SparseTensor):
        return component.dense_shape[0]
    if isinstance(component, tf.RaggedTensor):
        return component.nrows(out_type=tf.int64)
    return tf.shape(component, out_type=tf.int64)[0]


def _shared_out(strategy, dataset_fn, share):
    def shared_out(input_context):
        replicas = strategy.num_replicas_in_sync // input_context.num_input_pipelines
        dataset = dataset_fn(input_context)
        return dataset if replicas == 1 or _ends_with_whole_group(dataset, replicas) else share(dataset, replicas)

    return shared_out


def _ends_with_whole_group(dataset, replicas):
    """Whether `dataset` is known to end with a batch for every replica, or not to end. A v1 graph does not know."""
    count = tf.get_static_value(dataset.cardinality())
    return count is not None and (count == tf.data.INFINITE_CARDINALITY or (count >= 0 and count % replicas == 0))


def _drop_incomplete(dataset, replicas):
    """`dataset`'s batches, as many as there are in whole groups of one a replica."""
    windows = dataset.window(replicas, drop_remainder=True)
    return windows.flat_map(lambda *parts: tf.data.Dataset.zip(parts[0] if len(parts) == 1 else parts))


def _share_out(dataset, replicas, preprocess=None):
    """`dataset`'s batches, their number made a multiple of `replicas` at its end.

    Batches go out in groups of one a replica. What is left after the last whole group is split evenly into one more
    group; where that would leave a replica without an example, the last whole group is split together with it.
    """

    def group(index, window):
        # A window is a group and the one after it: what is left at the end is seen together with the last whole group.
        batches = tf.data.Dataset.zip(window)
        count = batches.cardinality()
        is_whole = count >= replicas
        ends_even = tf.equal(count % replicas, 0)  # in a v1 graph, == would compare objects
        splits_alone = ends_even | (_count_examples(batches.skip(replicas), unless=ends_even) >= replicas)
        kept = tf.where(is_whole & splits_alone, tf.constant(replicas, tf.int64), 0)
        # An incomplete group that is not the first was split by the window before.
        none_left = tf.where(is_whole, ends_even, index > 0)
        left = batches.skip(kept).take(tf.where(none_left, tf.constant(0, tf.int64), -1))
        if preprocess is not None:
            left = left.map(lambda features, *rest: (preprocess(features), *rest))
        return batches.take(kept).concatenate(_split_evenly(left, replicas, none_left))

    return dataset.window(2 * replicas, shift=replicas).enumerate().flat_map(group)


def _split_evenly(batches, replicas, none):
    """The examples of `batches` as `replicas` batches whose sizes differ by at most one; `none`: there are none."""
    count = _count_examples(batches, unless=none)
    message = f"{replicas} replicas need at least {replicas} examples; the input_fn's data has fewer"
    with tf.control_dependencies([tf.debugging.Assert(tf.equal(count, 0) | (count >= replicas), [message, count])]):
        size, larger = count // replicas, count % replicas
    examples = batches.unbatch()
    # Examples that were padded to the longest of their batch differ in length from those of another.
    specs = tf.nest.flatten(examples.element_spec)
    are_padded = all(isinstance(spec, tf.TensorSpec) for spec in specs) and any(
        not spec.shape.is_fully_defined() for spec in specs
    )
    batch = tf.data.Dataset.padded_batch if are_padded else tf.data.Dataset.batch
    in_larger = larger * (size + 1)
    rest = batch(examples.skip(in_larger), tf.maximum(size, 1))
    return batch(examples.take(in_larger), size + 1).concatenate(rest)


def _count_examples(batches, unless):
    """Reducing a dataset inside another is slow, so it is done only where there is something to count."""
    zero = tf.constant(0, tf.int64)
    return tf.cond(unless, lambda: zero, lambda: batches.reduce(zero, lambda count, *batch: count + batch_size(batch)))
