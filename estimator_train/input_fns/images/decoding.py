"""Decodes image files to float32 images.

Grayscale images are decoded and resized with one channel and converted to RGB at the end. The values are the same, bit
for bit, and a 512 x 496 JPEG takes a fifth less processor time.

An encoded image reaches TensorFlow's decoders only if its header is that of a JPEG or PNG of bounded size. The decoders
would also accept GIF, BMP and WebP, but an animated WebP corrupts their heap, and a GIF is unpacked with all its frames
before its size is known.
"""

from __future__ import annotations

import math
import struct

import numpy as np
import tensorflow as tf

MAX_PIXELS = 89_478_485  # the same as Pillow's Image.MAX_IMAGE_PIXELS: a quarter of a gigabyte of RGB

_PNG = struct.unpack(">4i", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")  # width and height follow
_NO_SIZE = np.full(2, 2**31, np.int64)  # larger than any JPEG or PNG
_RATIOS = (1, 2, 4, 8)  # factors by which the decoder can scale a JPEG down


def decode_image(encoded: tf.Tensor, image_size: tuple[int, int]) -> tf.Tensor:
    """Decodes a JPEG or PNG, given as a string scalar, to a float32 RGB image of (height, width, 3) in [0, 1].

    Raises:
      tf.errors.InvalidArgumentError: the image has another format, is damaged, or has more than `MAX_PIXELS`.
    """
    return to_rgb(_decode(encoded, image_size, fast=False))


def decode_pixels(encoded: tf.Tensor, *, at_least: tuple[int, int] | None = None) -> tf.Tensor:
    """Decodes a JPEG or PNG without resizing: uint8 of (height, width, 1 or 3).

    Args:
      encoded: a string scalar.
      at_least: (height, width). The JPEG decoder scales the image down as far as it stays at least this large; None
        keeps the original size.

    Raises:
      tf.errors.InvalidArgumentError: see `decode_image`.
    """
    # This runs once per image, so every operation counts; tf.debugging.Assert, for one, would add a tf.cond.
    size = _size(encoded)
    message = "an image", f"cannot be decoded: it is not a JPEG or PNG of at most {MAX_PIXELS} pixels"
    with tf.control_dependencies([tf.raw_ops.Assert(condition=tf.reduce_prod(size) <= MAX_PIXELS, data=message)]):
        # decode_jpeg decodes PNG as well. The alpha channel is dropped below, as `channels=3` would drop it.
        image = _decode_scaled_down(encoded, size, at_least) if at_least else tf.io.decode_jpeg(encoded)
    without_alpha = tf.bitwise.bitwise_or(tf.shape(image) - [0, 0, 1], [0, 0, 1])  # 1 or 3 channels of 1 to 4
    return tf.slice(image, [0, 0, 0], without_alpha)


def decode_files(paths: tf.Tensor, image_size: tuple[int, int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Decodes files in parallel; returns the images that can be decoded and their indices in `paths`, in order."""
    images, places = decode_own_channels(paths, image_size)
    return to_rgb(images), places


def decode_own_channels(
    paths: tf.Tensor, image_size: tuple[int, int], *, fast: bool = False
) -> tuple[tf.Tensor, tf.Tensor]:
    """Like `decode_files`, but an all-grayscale batch keeps one channel; see `decoded` for `fast`."""
    # A color image sets the batch's channels to three; grayscale images are padded here and converted to RGB below.
    images = decoded(paths, image_size, fast=fast).padded_batch(tf.size(paths, tf.int64), ((*image_size, None), (), ()))
    none = tf.zeros((0, *image_size, 1)), tf.zeros((0,), tf.bool), tf.zeros((0,), tf.int64)
    images = images.concatenate(tf.data.Dataset.from_tensors(none)).take(1)
    # By default, each batch would rewrite the dataset's functions and start an autotuner.
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    images, is_gray, places = images.with_options(options).get_single_element()
    uniform = tf.cond(
        tf.reduce_any(is_gray) & ~tf.reduce_all(is_gray),
        lambda: tf.where(is_gray[:, tf.newaxis, tf.newaxis, tf.newaxis], images[..., :1], images),
        lambda: images,
    )
    return tf.ensure_shape(uniform, images.shape), places


def decoded(paths: tf.Tensor, image_size: tuple[int, int], *, fast: bool = False) -> tf.data.Dataset:
    """Returns a dataset of (image, whether it is grayscale, index in `paths`), in order.

    Files that cannot be decoded are left out. Images are float32 of shape (height, width, 1) if grayscale, else
    (height, width, 3).

    Args:
      paths: a string tensor.
      image_size: (height, width).
      fast: whether the JPEG decoder scales down images that are at least twice as large, which makes resizing cheaper.
    """

    def decode(place: tf.Tensor, path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        image = _decode(tf.io.read_file(path), image_size, fast)
        return image, tf.shape(image)[-1] < 2, place

    images = tf.data.Dataset.from_tensor_slices(paths).enumerate()
    # Dataset.ignore_errors is the only way to catch an error in a graph.
    return images.map(decode, num_parallel_calls=tf.data.AUTOTUNE).ignore_errors()


def fault_of_file(path: tf.Tensor) -> tf.Tensor:
    """Returns why a file cannot be decoded, such as "no readable JPEG or PNG"; call it only for such a file."""
    # The file may be gone or its header damaged. Dataset.ignore_errors is the only way to catch an error in a graph.
    sizes = tf.data.Dataset.from_tensors(path).map(lambda path: _size(tf.io.read_file(path))).ignore_errors()
    size = sizes.concatenate(tf.data.Dataset.from_tensors(_NO_SIZE)).take(1).get_single_element()
    height, width = tf.unstack(tf.strings.as_string(size))
    too_large = tf.strings.join(["its ", width, " x ", height, f" pixels exceed {MAX_PIXELS} (scale it down)"])
    is_large = (tf.reduce_prod(size) > MAX_PIXELS) & (size[0] < _NO_SIZE[0])
    return tf.where(is_large, too_large, "no readable JPEG or PNG")


def to_rgb(images: tf.Tensor) -> tf.Tensor:
    """Converts images of (…, height, width, 1 or 3) to three channels; a single channel is copied, bit for bit."""
    if images.shape[-1] == 3:
        return images

    def copy() -> tf.Tensor:
        # Each sum has one exact product and zeros otherwise, so the result is exact. On the CPU this takes a fifth of
        # the time of tf.tile, which copies float by float.
        pixels = math.gcd(math.prod(images.shape[-3:-1]), 8)
        copies = np.repeat(np.eye(pixels, dtype=np.float32), 3, axis=1)
        rows = tf.matmul(tf.reshape(images, (-1, pixels)), copies)
        return tf.reshape(rows, tf.concat([tf.shape(images)[:-1], [3]], axis=0))

    rgb = tf.cond(tf.equal(tf.shape(images)[-1], 1), copy, lambda: images)
    return tf.ensure_shape(rgb, (*images.shape[:-1], 3))


def to_rgb_on_device(images: tf.Tensor) -> tf.Tensor:
    """Like `to_rgb`, but exact on GPUs, too, which may round the products of a matmul to TF32."""
    if not tf.config.list_physical_devices("GPU"):
        return to_rgb(images)
    return tf.ensure_shape(tf.broadcast_to(images, (*tf.unstack(tf.shape(images)[:-1]), 3)), (*images.shape[:-1], 3))


def _decode(encoded: tf.Tensor, image_size: tuple[int, int], fast: bool) -> tf.Tensor:
    image = decode_pixels(encoded, at_least=image_size if fast else None)
    # Values are scaled to [0, 1] before resizing; in the reverse order, a third of them differ in the last bit.
    image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), image_size)
    return tf.ensure_shape(image, (*image_size, None))


def _decode_scaled_down(encoded: tf.Tensor, size: tf.Tensor, at_least: tuple[int, int]) -> tf.Tensor:
    times = tf.reduce_min(size // tf.constant(at_least, tf.int64))
    number = tf.reduce_sum(tf.cast(tf.io.is_jpeg(encoded) & (times >= _RATIOS[1:]), tf.int32))
    return tf.switch_case(number, [lambda ratio=ratio: tf.io.decode_jpeg(encoded, ratio=ratio) for ratio in _RATIOS])


def _size(encoded: tf.Tensor) -> tf.Tensor:
    """Returns (height, width), int64, from the header of a JPEG or PNG; `_NO_SIZE` for other formats."""

    def size_of_jpeg() -> tf.Tensor:
        return tf.image.extract_jpeg_shape(encoded, tf.int64)[:2]

    def size_of_png() -> tf.Tensor:
        header = tf.io.decode_raw(encoded, tf.int32, little_endian=False, fixed_length=24)  # padded with zeros
        is_png = tf.reduce_all(tf.equal(header[:4], _PNG))
        return tf.where(is_png, tf.cast(header[:3:-1], tf.int64), _NO_SIZE)

    return tf.cond(tf.io.is_jpeg(encoded), size_of_jpeg, size_of_png)
