"""Computes the order of examples from their position in the training, so that reading can start anywhere."""

import random

import tensorflow as tf

from estimator_train._engine.autograph import unconverted
from estimator_train._engine.distribution.replica_input import batch_size as batch_size_of
from estimator_train._engine.types import Nest

_FOR_ZEROS = 2**31 - 1  # with two zeros, the op draws its seeds; tf.data replaces the second one by this, too


@unconverted
def number_batches(
    num_examples: int,
    *,
    batch_size: int,  # only the very last batch may be short
    num_epochs: int | None,  # None repeats forever
    shuffle: bool,
    seed: int | None,  # alone determines the order; None draws one with `draw_seed`
    start: int = 0,  # examples to skip at the beginning, counted over all epochs
    drop_remainder: bool = False,  # whether to drop a short last batch; makes the batch size static
) -> tf.data.Dataset:
    """Returns a dataset of batches of example numbers, int64 of shape (batch,).

    Each batch is computed from its own number alone. Batches before `start` therefore cost nothing, and the workers of
    a tf.data service can share the batches. Batches may span epochs; each epoch has every example once.
    """
    total = num_examples * (tf.int64.max // max(num_examples, 1) if num_epochs is None else num_epochs)
    if shuffle and seed is None:
        seed = draw_seed()

    def numbers_of(index: tf.Tensor) -> tf.Tensor:
        begin = start + index * batch_size
        positions = tf.range(begin, tf.minimum(begin + batch_size, total))
        if drop_remainder:
            positions = tf.ensure_shape(positions, (batch_size,))
        numbers, epochs = positions % num_examples, positions // num_examples
        if not shuffle:
            return numbers
        # Uses the raw op because tf.random.experimental.index_shuffle does not accept a seed for each number.
        seeds = tf.stack([tf.fill(tf.shape(numbers), tf.constant(seed, tf.int64)), epochs, epochs], axis=1)
        # In 4 rounds, its default, up to a thousand numbers mostly keep their order in an epoch with the seed's number.
        return tf.raw_ops.RandomIndexShuffle(index=numbers, seed=seeds, max_index=num_examples - 1, rounds=8)

    left = max(total - start, 0)
    if not drop_remainder:
        left += batch_size - 1  # rounds up
    batches = tf.data.Dataset.range(left // batch_size).map(numbers_of)
    if num_epochs is None and num_examples:
        batches = batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
    return batches


def shuffled(
    dataset: tf.data.Dataset, buffer_size: int, seeds: tuple[int | tf.Tensor, int | tf.Tensor]
) -> tf.data.Dataset:
    """Shuffles by `seeds` alone; Dataset.shuffle mixes in the global seed, and takes no tensor where that is 0."""
    spec = dataset.element_spec
    flat = tf.nest.flatten(spec)
    first, second = (tf.cast(seed, tf.int64) for seed in seeds)
    second = tf.where((first == 0) & (second == 0), tf.constant(_FOR_ZEROS, tf.int64), second)
    shuffled = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        buffer_size=tf.constant(buffer_size, tf.int64),
        seed=first,
        seed2=second,
        reshuffle_each_iteration=False,
        output_types=[part.dtype for part in flat],
        output_shapes=[part.shape for part in flat],
    )
    return tf.data.experimental.from_variant(shuffled, spec)


def draw_seed() -> int:
    """Returns a random int from 1 to 2**31 - 1; with TensorFlow's global seed set, the same in every program run."""
    global_seed, op_seed = tf.compat.v1.random.get_seed(None)
    if op_seed is None:
        return random.randrange(1, 2**31)
    return random.Random(f"{global_seed} {op_seed}").randrange(1, 2**31)


def share_of_pipeline(examples: int, input_context: tf.distribute.InputContext) -> int:
    """Returns how many of `examples` came from this input pipeline, if all pipelines give one each in turn."""
    pipelines = input_context.num_input_pipelines
    return examples // pipelines + (input_context.input_pipeline_id < examples % pipelines)


@unconverted
def without_first(batches: tf.data.Dataset, examples: int) -> tf.data.Dataset:
    """Drops the first `examples` after reading them; batches of a static size stay whole, so some may be repeated."""
    if examples == 0:
        return batches
    specs = [part for part in tf.nest.flatten(batches.element_spec) if hasattr(part, "shape")]  # None has no shape
    sizes = {part.shape.as_list()[0] if part.shape.rank else None for part in specs if part.shape.rank != 0}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is not None:
        return batches.skip(examples // size)

    def with_end(begin: tf.Tensor, batch: Nest) -> tuple[tf.Tensor, tuple[tf.Tensor, Nest]]:
        end = begin + batch_size_of(batch)
        return end, (end, batch)

    def rest(end: tf.Tensor, batch: Nest) -> Nest:
        size = batch_size_of(batch)
        first = size - tf.minimum(size, end - examples)
        return tf.nest.map_structure(lambda part: _rows_from(part, first), batch)

    with_ends = batches.scan(tf.constant(0, tf.int64), with_end)
    return with_ends.filter(lambda end, batch: end > examples).map(rest)


def _rows_from(
    part: tf.Tensor | tf.SparseTensor | tf.RaggedTensor | None, first: tf.Tensor
) -> tf.Tensor | tf.SparseTensor | tf.RaggedTensor | None:
    """Returns the rows of a tensor of any kind, starting at row `first`; returns a scalar or None unchanged."""
    if part is None or part.shape.rank == 0:
        return part
    if isinstance(part, tf.SparseTensor):
        begin = tf.concat([[first], tf.zeros_like(part.dense_shape[1:])], axis=0)
        return tf.sparse.slice(part, begin, part.dense_shape - begin)
    return part[first:]
