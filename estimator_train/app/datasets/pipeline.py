"""Input pipelines from decoded images and class indices to the inputs of models."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_train._engine.application import StartsAnywhere, draw_seed, share_of_pipeline, shuffled

_BUFFER_SIZE = 4096


def as_model_input(
    images: tf.Tensor, labels: tf.Tensor, image_size: tuple[int, int], num_classes: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (images, labels) in the format of `dataset.Dataset`, for one example or a batch.

        >>> images, labels = as_model_input(tf.zeros([2, 28, 28, 1], tf.uint8), [0, 2], (32, 32), 3)
        >>> images.shape.as_list(), labels.shape.as_list()
        ([2, 32, 32, 3], [2, 3])

    The shape of `images` is (…, height, width, 1 or 3). They are integers from 0 to their type's maximum, or floats in
    [0, 1]. `labels` are class indices.
    """
    images = tf.image.convert_image_dtype(images, tf.float32)
    if images.shape[-1] == 1:
        images = tf.image.grayscale_to_rgb(images)
    images = tf.ensure_shape(tf.image.resize(images, image_size), (*images.shape[:-3], *image_size, 3))
    return images, tf.one_hot(labels, num_classes)


@dataclasses.dataclass(frozen=True, eq=False)
class MappedBatches:
    """An input_fn that applies `function` to the batches of `input_fn`; both follow the protocol StartsAnywhere.

    >>> tens = ExampleBatches(lambda: tf.data.Dataset.range(4), lambda number: 10 * number, batch_size=2)
    >>> [batch.numpy().tolist() for batch in MappedBatches(tens, lambda batch: batch + 1)()]
    [[1, 11], [21, 31]]
    """

    input_fn: StartsAnywhere
    function: Callable[..., Any]

    @tf.autograph.experimental.do_not_convert  # see unconverted in _engine/
    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        batches = self.input_fn(input_context)
        return batches.map(self.function, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def starting_at(self, examples: int, seed: int) -> StartsAnywhere:
        return dataclasses.replace(self, input_fn=self.input_fn.starting_at(examples, seed))


@dataclasses.dataclass(frozen=True, eq=False)
class ExampleBatches:
    """An input_fn that maps `load` over the examples of a tf.data.Dataset and batches them.

    It follows the protocol StartsAnywhere. With a `tf.distribute.InputContext`, each input pipeline gets its shard of
    the examples. Shuffling uses a buffer of 4096 examples. If it starts inside an epoch, the earlier examples are read
    but not passed to `load`.

        >>> tens = ExampleBatches(lambda: tf.data.Dataset.range(4), lambda number: 10 * number, batch_size=2)
        >>> [batch.numpy().tolist() for batch in tens()]
        [[0, 10], [20, 30]]
    """

    examples: Callable[[], tf.data.Dataset]  # returns those of one epoch
    load: Callable[..., Any]  # maps an example to an element
    batch_size: int
    num_epochs: int | None = 1  # None repeats forever
    shuffle: bool = False  # each epoch differently
    seed: int | None = None  # for shuffling; None draws one, from TensorFlow's global seed if that is set
    num_examples: int | None = None  # None: the dataset's cardinality
    first: int = 0  # examples to skip at the beginning, over all epochs and input pipelines

    @tf.autograph.experimental.do_not_convert  # see unconverted in _engine/
    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        context = input_context or tf.distribute.InputContext()
        pipelines, pipeline = context.num_input_pipelines, context.input_pipeline_id
        epoch_examples = self.examples().shard(pipelines, pipeline)
        first_epoch, first = 0, 0
        if self.first:
            number = self.num_examples or int(self.examples().cardinality())
            first_epoch, first = divmod(share_of_pipeline(self.first, context), len(range(pipeline, number, pipelines)))
        seed = draw_seed() if self.shuffle and self.seed is None else self.seed

        def examples_of(epoch):
            ordered = epoch_examples
            if self.shuffle:
                ordered = shuffled(ordered, _BUFFER_SIZE, (seed, epoch))
            return ordered.skip(tf.where(epoch > first_epoch, tf.constant(0, tf.int64), first))

        last_epoch = tf.int64.max if self.num_epochs is None else self.num_epochs
        dataset = tf.data.Dataset.range(first_epoch, last_epoch).flat_map(examples_of)
        dataset = dataset.map(self.load, num_parallel_calls=tf.data.AUTOTUNE)
        return dataset.batch(self.batch_size).prefetch(tf.data.AUTOTUNE)

    def starting_at(self, examples: int, seed: int) -> StartsAnywhere:
        return dataclasses.replace(self, first=examples, seed=seed if self.seed is None else self.seed)
