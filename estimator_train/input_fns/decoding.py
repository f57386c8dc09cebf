"""Image files to float32 images.

Grayscale images are decoded and resized with one channel, and widened to three at the end: the values are the same,
bit for bit, and a 512 x 496 JPEG takes a fifth less processor time.
"""

import math

import numpy as np
import tensorflow as tf

CANNOT_BE_DECODED = 'cannot be decoded: no readable JPEG or PNG; delete it or pass on_error="skip"'

_RATIOS = (1, 2, 4, 8)  # in which the decoder can scale a JPEG down


def decode_image(encoded, image_size):
    """Returns the image of an encoded JPEG or PNG, a string scalar: float32 RGB of (height, width, 3) in [0, 1]."""
    return widen(_decode(encoded, image_size, fast=False))


def decode_files(paths, image_size):
    """Decodes in parallel: returns the images that can be decoded and their places in `paths`, in order."""
    images, places = decode_narrow(paths, image_size)
    return widen(images), places


def decode_narrow(paths, image_size, *, fast=False):
    """Like `decode_files`, but a batch of grayscale images alone has one channel; see `decoded` for `fast`."""
    # What is in colour sets the channels of the batch; grayscale images are padded, and widened below.
    images = decoded(paths, image_size, fast=fast).padded_batch(tf.size(paths, tf.int64), ((*image_size, None), (), ()))
    none = tf.zeros((0, *image_size, 1)), tf.zeros((0,), tf.bool), tf.zeros((0,), tf.int64)
    images = images.concatenate(tf.data.Dataset.from_tensors(none)).take(1)
    # Else each batch has its functions rewritten, and an autotuner.
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    images, is_gray, places = images.with_options(options).get_single_element()
    widened = tf.cond(
        tf.reduce_any(is_gray) & ~tf.reduce_all(is_gray),
        lambda: tf.where(is_gray[:, tf.newaxis, tf.newaxis, tf.newaxis], images[..., :1], images),
        lambda: images,
    )
    return tf.ensure_shape(widened, images.shape), places


def decoded(paths, image_size, *, fast=False):
    """Returns a dataset of (image, whether it is grayscale, place in `paths`) of those that can be decoded, in order.

    Images are float32 of shape (height, width, 1) if grayscale, else (height, width, 3).

    Args:
      paths: a string tensor.
      image_size: (height, width).
      fast: whether the JPEG decoder scales images down that are at least twice as large, so that less is left to
        resize.
    """

    def decode(place, path):
        image = _decode(tf.io.read_file(path), image_size, fast)
        return image, tf.shape(image)[-1] < 2, place

    images = tf.data.Dataset.from_tensor_slices(paths).enumerate()
    # Graphs have no try but Dataset.ignore_errors.
    return images.map(decode, num_parallel_calls=tf.data.AUTOTUNE).ignore_errors()


def widen(images):
    """Returns images of (…, height, width, 1 or 3) with three channels; a single one is copied, bit for bit."""
    if images.shape[-1] == 3:
        return images

    def copy():
        # One exact product and zeros a sum: on the CPU a fifth of the time of tf.tile, which copies float by float.
        pixels = math.gcd(math.prod(images.shape[-3:-1]), 8)
        copies = np.repeat(np.eye(pixels, dtype=np.float32), 3, axis=1)
        rows = tf.matmul(tf.reshape(images, (-1, pixels)), copies)
        return tf.reshape(rows, tf.concat([tf.shape(images)[:-1], [3]], axis=0))

    widened = tf.cond(tf.equal(tf.shape(images)[-1], 1), copy, lambda: images)
    return tf.ensure_shape(widened, (*images.shape[:-1], 3))


def widen_on_device(images):
    """Like `widen`, for where a GPU may compute it, whose products may be rounded to TF32."""
    if not tf.config.list_physical_devices("GPU"):
        return widen(images)
    return tf.ensure_shape(tf.broadcast_to(images, (*tf.unstack(tf.shape(images)[:-1]), 3)), (*images.shape[:-1], 3))


def _decode(encoded, image_size, fast):
    # decode_jpeg decodes PNG as well, whose alpha is left out as `channels=3` leaves it out.
    image = _decode_fast(encoded, image_size) if fast else tf.io.decode_jpeg(encoded)
    channels = tf.shape(image)[-1]
    image = image[..., : channels - 1 + channels % 2]
    # Scaled before it is resized: the other way round, a third of the values differs in the last bit.
    image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), image_size)
    return tf.ensure_shape(image, (*image_size, None))


def _decode_fast(encoded, image_size):
    size = tf.cond(
        tf.io.is_jpeg(encoded), lambda: tf.image.extract_jpeg_shape(encoded)[:2], lambda: tf.constant(image_size)
    )
    times = tf.reduce_min(size // image_size)
    number = tf.reduce_sum(tf.cast(times >= _RATIOS[1:], tf.int32))
    return tf.switch_case(number, [lambda ratio=ratio: tf.io.decode_jpeg(encoded, ratio=ratio) for ratio in _RATIOS])
