"""The order of examples as a function of their position in the training, which can begin anywhere."""

import random

import tensorflow as tf

from estimator_train.distribution.replica_input import batch_size as batch_size_of


def number_batches(num_examples, *, batch_size, num_epochs, shuffle, seed, start=0, drop_remainder=False):
    """Returns a dataset of batches of the numbers of examples, int64 of shape (batch,).

    A batch is computed from its own number alone, so that those before `start` cost nothing, and the workers of a
    tf.data service can share the batches. They run on across epochs, each of which has every example once.

    Args:
      num_examples: how many there are.
      batch_size: numbers in a batch; only the very last may be short.
      num_epochs: passes over the examples; None is forever.
      shuffle: whether each epoch has an order of its own, drawn from all examples.
      seed: int, which alone gives the order; None draws one: see `draw_seed`.
      start: how many examples to leave out at the beginning, over all epochs.
      drop_remainder: whether to leave a short last batch out; gives a static batch size.
    """
    total = num_examples * (tf.int64.max // max(num_examples, 1) if num_epochs is None else num_epochs)
    seed = draw_seed() if shuffle and seed is None else seed

    def numbers_of(index):
        begin = start + index * batch_size
        positions = tf.range(begin, tf.minimum(begin + batch_size, total))
        if drop_remainder:
            positions = tf.ensure_shape(positions, (batch_size,))
        numbers, epochs = positions % num_examples, positions // num_examples
        if not shuffle:
            return numbers
        # The raw op, for tf.random.experimental.index_shuffle fails on a seed for each number.
        seeds = tf.stack([tf.fill(tf.shape(numbers), tf.constant(seed, tf.int64)), epochs, epochs], axis=1)
        return tf.raw_ops.RandomIndexShuffle(index=numbers, seed=seeds, max_index=num_examples - 1, rounds=4)

    left = max(total - start, 0)
    batches = tf.data.Dataset.range(left // batch_size if drop_remainder else -(-left // batch_size)).map(numbers_of)
    if num_epochs is None and num_examples:
        batches = batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
    return batches


def shuffled(dataset, buffer_size, seeds):
    """`dataset`, a tf.data.Dataset, in an order that `seeds` alone gives, a pair of ints or int64 tensors.

    The raw op, for the seed of Dataset.shuffle is mixed with the global one, and must not be a tensor if that is 0.
    """
    spec = dataset.element_spec
    flat = tf.nest.flatten(spec)
    shuffled = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        buffer_size=tf.constant(buffer_size, tf.int64),
        seed=tf.cast(seeds[0], tf.int64),
        seed2=tf.cast(seeds[1], tf.int64),
        reshuffle_each_iteration=False,
        output_types=[part.dtype for part in flat],
        output_shapes=[part.shape for part in flat],
    )
    return tf.data.experimental.from_variant(shuffled, spec)


def draw_seed():
    """Returns an int from 1 to 2**31 - 1; with a global seed of TensorFlow's, the same in every run of a program."""
    global_seed, op_seed = tf.compat.v1.random.get_seed(None)
    source = random if op_seed is None else random.Random(f"{global_seed} {op_seed}")
    return source.randrange(1, 2**31)


def share_of_pipeline(examples, input_context):
    """How many of `examples` that all input pipelines have given came from this one; they give one each in turn."""
    pipelines = input_context.num_input_pipelines
    return examples // pipelines + (input_context.input_pipeline_id < examples % pipelines)


def without_first(batches, examples):
    """The dataset `batches` without its first `examples` examples, which are read all the same.

    Batches of a static size stay whole, so part of the last one left out may come again.
    """
    if examples == 0:
        return batches
    specs = tf.nest.flatten(batches.element_spec)
    static = {part.shape.as_list()[0] if part.shape.rank else None for part in specs if part.shape.rank != 0}
    if len(static) == 1 and None not in static:
        return batches.skip(examples // static.pop())

    def with_end(begin, batch):
        end = begin + batch_size_of(batch)
        return end, (end, batch)

    def rest(end, batch):
        size = batch_size_of(batch)
        first = size - tf.minimum(size, end - examples)
        return tf.nest.map_structure(lambda part: _rows_from(part, first), batch)

    with_ends = batches.scan(tf.constant(0, tf.int64), with_end)
    return with_ends.filter(lambda end, batch: end > examples).map(rest)


def _rows_from(part, first):
    """The rows of a part of a batch, a tensor of any kind, from the row `first` on; a scalar as it is."""
    if part.shape.rank == 0:
        return part
    if isinstance(part, tf.SparseTensor):
        begin = tf.concat([[first], tf.zeros_like(part.dense_shape[1:])], axis=0)
        return tf.sparse.slice(part, begin, part.dense_shape - begin)
    return part[first:]
