"""Strategies from "2 GPUs", "2 CPU replicas" or TF_CONFIG, and input for every replica of one."""

from __future__ import annotations

import functools
import inspect

import tensorflow as tf

from estimator_train import cluster
from estimator_train.run_config import TaskType, cluster_place
from estimator_train.tf_config import read_tf_config


def gpus(count, *, all_reduce=None):
    """A `tf.distribute.MirroredStrategy` over the first `count` GPUs, with memory growth set on them.

    `all_reduce`: how gradients are summed over them: "nccl", "hierarchical", "one_device", or None, as TensorFlow
    chooses.

    Raises:
      ValueError: fewer GPUs are visible.
    """
    _first_gpus(count, f"use --replicas {count} for CPU replicas")
    return _mirrored([f"GPU:{index}" for index in range(count)], all_reduce)


def cpu_replicas(count, *, all_reduce=None):
    """A `tf.distribute.MirroredStrategy` over `count` logical CPU devices, which any machine can make.

    `all_reduce`: as of `gpus`, but NCCL is for GPUs.

    Raises:
      ValueError: `all_reduce` is nccl.
      RuntimeError: from TensorFlow, when it has started with fewer devices already; call this before any other use.
    """
    if all_reduce == "nccl":
        raise ValueError("--all-reduce nccl sums over GPUs; with --replicas give hierarchical or one_device")
    return _mirrored(_logical_cpus(count), all_reduce)


def devices_to_split_over(count):
    """Names of the first `count` GPUs, with memory growth set on them; without any GPU, of `count` logical CPU devices.

    Raises:
      ValueError: there are GPUs, but fewer.
      RuntimeError: as of `cpu_replicas`.
    """
    visible = tf.config.list_physical_devices("GPU")
    if not visible:
        return _logical_cpus(count)
    if count > len(visible):
        raise ValueError(f"--split-over {count}: TensorFlow sees {len(visible)} GPUs; give at most so many")
    return [f"GPU:{index}" for index, _ in enumerate(_first_gpus(count))]


def _logical_cpus(count):
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or []) < count:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    return [f"CPU:{index}" for index in range(count)]


def _mirrored(devices, all_reduce):
    reductions = {
        "nccl": tf.distribute.NcclAllReduce,
        "hierarchical": tf.distribute.HierarchicalCopyAllReduce,
        "one_device": tf.distribute.ReductionToOneDevice,
    }
    reduction = reductions[all_reduce]() if all_reduce else None
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction)


def multi_worker(gpus=None):
    """The `tf.distribute.MultiWorkerMirroredStrategy` of TF_CONFIG's cluster, over every worker's first `gpus` GPUs.

    None for `gpus` takes all that there are; a worker without one is a CPU replica. The strategy is None in the
    evaluator: it is none of the workers, and TensorFlow does not build the strategy there. To be called before any
    other use of TensorFlow, as TensorFlow's own constructor.

    Raises:
      ValueError: TF_CONFIG is wrong, this task cannot listen at its address, or it has fewer GPUs.
    """
    place = cluster_place(read_tf_config(), in_step=True)
    if place.task_type == TaskType.EVALUATOR:
        return None
    if place.cluster_spec:
        cluster.check_address(place)
    if gpus is not None:
        tf.config.set_visible_devices(_first_gpus(gpus), "GPU")
    return tf.distribute.MultiWorkerMirroredStrategy()


def _first_gpus(count, or_instead=""):
    visible = tf.config.list_physical_devices("GPU")
    if count > len(visible):
        ways = [f"use --gpus {len(visible)}"] if visible else []
        ways += [or_instead] if or_instead else []
        raise ValueError("; ".join([f"--gpus {count}: TensorFlow sees {len(visible)}", *ways]))
    let_memory_grow(visible[:count])
    return visible[:count]


def let_memory_grow(gpus=None):
    """Has TensorFlow take the memory of GPUs as it needs it, of all there are unless told which."""
    for gpu in tf.config.list_physical_devices("GPU") if gpus is None else gpus:
        tf.config.experimental.set_memory_growth(gpu, True)


def call_input_fn(input_fn, **offered):
    """Calls `input_fn` on the CPU with those of `offered` (mode, params, config, input_context) that it names.

    The data set of one that does not name input_context is sharded by its own auto_shard_policy, if it has one.
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
    # What experimental_distribute_dataset does, which would also take the batch for that of all replicas. In a data set
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


def distribute(strategy, dataset_fn, finish=None):
    """The data set of `dataset_fn(input_context)` as input for the replicas of `strategy`; its batches are per replica.

    Each step takes one batch a replica. Where the batches or examples of the data's end do not divide by the replicas,
    they are shared out, so that every example is used once and no replica is left with an empty batch.

    `finish`: what the replicas make of the features of a batch; examples of different batches are of one shape after it
    only.
    """
    share = functools.partial(_share_out, finish=finish)
    return strategy.distribute_datasets_from_function(_shared_out(strategy, dataset_fn, share))


def distribute_in_graph(strategy, dataset_fn, drop_incomplete):
    """As `distribute`, in a v1 graph: (the batch, an element or one a replica; the op that starts the data anew).

    With `drop_incomplete` batches that are too few for all replicas are left out, as tf.estimator's training did.
    """
    share = _drop_incomplete if drop_incomplete else _share_out
    iterator = strategy.make_input_fn_iterator(_shared_out(strategy, dataset_fn, share))
    return iterator.get_next(), tf.group(iterator.initialize())


def in_graphs(strategy):
    """`strategy` as it works in v1 graphs; None: that of the scope which the default graph is in, or TensorFlow's own.

    There the collective ops that are MirroredStrategy's default reduction hang, so a strategy that has them is replaced
    by its like with another reduction.
    """
    if strategy is None:
        return tf.distribute.get_strategy()
    reduction = getattr(strategy.extended, "_cross_device_ops", None)
    is_mirrored = isinstance(strategy, (tf.distribute.MirroredStrategy, tf.compat.v1.distribute.MirroredStrategy))
    if is_mirrored and type(reduction).__name__ == "CollectiveAllReduce":
        devices = strategy.extended.worker_devices
        return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())
    return strategy


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
        return dataset if replicas == 1 else share(dataset, replicas)

    return shared_out


def _drop_incomplete(dataset, replicas):
    """`dataset`'s batches, as many as there are in whole groups of one a replica."""
    windows = dataset.window(replicas, drop_remainder=True)
    return windows.flat_map(lambda *parts: tf.data.Dataset.zip(parts[0] if len(parts) == 1 else parts))


def _share_out(dataset, replicas, finish=None):
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
        if finish is not None:
            left = left.map(lambda features, *rest: (finish(features), *rest))
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
    are_padded = all(isinstance(spec, tf.TensorSpec) for spec in specs) and any(None in spec.shape for spec in specs)
    batch = tf.data.Dataset.padded_batch if are_padded else tf.data.Dataset.batch
    in_larger = larger * (size + 1)
    rest = batch(examples.skip(in_larger), tf.maximum(size, 1))
    return batch(examples.take(in_larger), size + 1).concatenate(rest)


def _count_examples(batches, unless):
    """Reducing a data set inside another is slow, so it is done only where there is something to count."""
    zero = tf.constant(0, tf.int64)
    return tf.cond(unless, lambda: zero, lambda: batches.reduce(zero, lambda count, *batch: count + batch_size(batch)))
