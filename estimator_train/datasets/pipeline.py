"""From decoded images and class indices to what models take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def as_model_input(
    images: tf.Tensor, labels: tf.Tensor, image_size: tuple[int, int], num_classes: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (images, labels) as `dataset.Dataset` describes them, of one example or of a batch.

    Args:
      images: of shape (…, height, width, 1 or 3), integers from 0 to their type's maximum or floats in [0, 1].
      labels: class indices.
    """
    images = tf.image.convert_image_dtype(images, tf.float32)
    if images.shape[-1] == 1:
        images = tf.image.grayscale_to_rgb(images)
    images = tf.ensure_shape(tf.image.resize(images, image_size), (*images.shape[:-3], *image_size, 3))
    return images, tf.one_hot(labels, num_classes)


def examples_input_fn(
    examples: Callable[[], tf.data.Dataset],
    load: Callable[..., Any],
    *,
    batch_size: int,
    num_epochs: int | None = 1,
    shuffle: bool = False,
    seed: int | None = None,
) -> Callable[..., tf.data.Dataset]:
    """Returns an input_fn over the batches of `load` of the examples of the tf.data.Dataset that `examples` returns.

    It takes an optional `tf.distribute.InputContext`: each input pipeline gets its shard of the examples. With
    `shuffle`, those of an epoch are drawn from a buffer of 4096.
    """

    def input_fn(input_context=None):
        dataset = examples()
        if input_context is not None:
            dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        if shuffle:
            dataset = dataset.shuffle(4096, seed=seed)
        dataset = dataset.repeat(num_epochs).map(load, num_parallel_calls=tf.data.AUTOTUNE)
        return dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE)

    return input_fn
