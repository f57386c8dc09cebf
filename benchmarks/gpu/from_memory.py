"""Batches that are already in host memory, so that they only have to be copied to the device and converted there."""

import numpy as np
import tensorflow as tf

from estimator_train.input_fns.images.decoding import to_rgb_on_device


class FromMemory:
    """An input_fn that repeats one batch and follows `protocols.PreprocessesOnDevice`.

    Args:
      images: type and number of channels, such as "uint8 x 3".
      batch_size: images on each replica.
      image_size: (height, width) in pixels.
      num_classes: number of classes; labels are int64 indices.
    """

    def __init__(self, images, batch_size, image_size, num_classes):
        dtype, channels = images.split(" x ")
        pixels = np.random.default_rng(1).integers(0, 256, (batch_size, *image_size, int(channels)), np.uint8)
        images = pixels if dtype == "uint8" else (pixels / 255).astype(dtype)
        self._batch = images, np.arange(batch_size) % num_classes

    def __call__(self, input_context=None):
        return self.host_batches().map(lambda images, labels: (self.preprocess(images), labels))

    def host_batches(self, input_context=None):
        return tf.data.Dataset.from_tensors(self._batch).repeat().prefetch(tf.data.AUTOTUNE)

    @staticmethod
    def preprocess(images):
        """Converts images to the model's input, float32 with three channels in [0, 1]."""
        return to_rgb_on_device(tf.image.convert_image_dtype(images, tf.float32))
