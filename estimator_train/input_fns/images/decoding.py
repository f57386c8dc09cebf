"""Decodes image files to float32 images.

Grayscale images are decoded and resized with one channel and converted to RGB at the end. The values are the same, bit
for bit, and a 512 x 496 JPEG takes a fifth less processor time.

An encoded image reaches TensorFlow's decoders only if its header is that of a JPEG or PNG of bounded size. The decoders
would also accept GIF, BMP and WebP, but an animated WebP corrupts their heap, and a GIF is unpacked with all its frames
before its size is known. `pillow.py` decodes these, and TIFF. A SavedModel and the workers of a tf.data service cannot
call Pillow: `serving.py` checks the headers of GIF, BMP and WebP there, and refuses TIFF.

JPEG and TIFF files are turned as their EXIF orientation says.
"""

import functools
import math
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from estimator_train._engine.autograph import unconverted
from estimator_train.input_fns.images.bounds import MAX_PIXELS, NO_SIZE, assert_decodable
from estimator_train.input_fns.images.orientation import orientation_of, turned
from estimator_train.input_fns.images.pillow import decode_with_pillow
from estimator_train.input_fns.images.serving import decode_for_serving

ImageSize: TypeAlias = tuple[int, int]  # (height, width) in pixels

RESIZES = ("squash", "crop", "pad")

_PNG = struct.unpack(">4i", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")  # width and height follow
_RATIOS = (1, 2, 4, 8)  # factors by which the decoder can scale a JPEG down


@unconverted
def decode_image(
    encoded: tf.Tensor,
    image_size: ImageSize,
    *,
    resize: str = "squash",
    orient: bool = True,
    serving: bool = False,
) -> tf.Tensor:
    """Decodes an image, given as a string scalar, to a float32 RGB image of (height, width, 3) in [0, 1].

    `resize` and `orient` are those of `image_files`. See `decode_pixels` for `serving` and errors.
    """
    return to_rgb(_decode(encoded, image_size, False, resize, orient, serving))


def decode_pixels(
    encoded: tf.Tensor, *, at_least: ImageSize | None = None, orient: bool = True, serving: bool = False
) -> tf.Tensor:
    """Decodes an image without resizing: uint8 of (height, width, 1 or 3).

    The JPEG decoder scales it down to no less than `at_least`, (height, width). With `serving`, only operations of
    TensorFlow are used, as a SavedModel or another process must; they decode all formats but TIFF.

    Raises tf.errors.InvalidArgumentError if the image has another format, is damaged, or has more than `MAX_PIXELS`.
    """
    # This runs once per image, so every operation counts; tf.debugging.Assert, for one, would add a tf.cond.
    size = size_in_header(encoded)
    decode = _decoder_of_jpeg_and_png(at_least, orient)
    with tf.init_scope():
        if tf.executing_eagerly():  # a tf.function keeps each v1 graph that has called it
            decode = _traced_once(at_least, orient)

    def decode_others() -> tf.Tensor:
        if serving:
            return decode_for_serving(encoded)
        return decode_with_pillow(encoded, orient=orient)

    image = tf.cond(size[0] < NO_SIZE[0], lambda: decode(encoded, size), decode_others)
    without_alpha = tf.bitwise.bitwise_or(tf.shape(image) - [0, 0, 1], [0, 0, 1])  # 1 or 3 channels of 1 to 4
    return tf.slice(image, [0, 0, 0], without_alpha)


@functools.cache
def _traced_once(at_least: ImageSize | None, orient: bool) -> Callable[..., tf.Tensor]:
    """Returns a `_decoder_of_jpeg_and_png` whose trace takes half of the time of making the first dataset of images."""
    specs = [tf.TensorSpec([], tf.string), tf.TensorSpec([2], tf.int64)]
    return tf.function(_decoder_of_jpeg_and_png(at_least, orient), specs, autograph=False)


def _decoder_of_jpeg_and_png(at_least: ImageSize | None, orient: bool) -> Callable[..., tf.Tensor]:
    """Returns a function (encoded image, its size) -> uint8 of (height, width, 1 to 4)."""

    def decode(encoded: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        is_bounded = assert_decodable(tf.reduce_prod(size) <= MAX_PIXELS)
        with tf.control_dependencies([is_bounded, assert_decodable(_has_end(encoded), "it is a JPEG that is cut off")]):
            orientation = orientation_of(encoded) if orient else 1
            # decode_jpeg decodes PNG as well. The alpha channel is dropped later, as `channels=3` would drop it.
            if at_least is None:
                image = tf.io.decode_jpeg(encoded)
            else:
                image = _decode_scaled_down(encoded, size, at_least, orientation)
        return turned(image, orientation) if orient else image

    return decode


@unconverted
def decode_files(paths: tf.Tensor, image_size: ImageSize, **how: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Decodes files like `decoded`; returns the images that can be decoded, in order, and their indices in `paths`."""
    images, places = decode_own_channels(paths, image_size, **how)
    return to_rgb(images), places


def decode_own_channels(paths: tf.Tensor, image_size: ImageSize, **how: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Like `decode_files`, but an all-grayscale batch keeps one channel."""
    images = decoded(numbered(paths), image_size, **how)
    # By default, each batch would rewrite the dataset's functions and start an autotuner.
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    batch = batched(images, tf.size(paths, tf.int64)).take(1).with_options(options)
    return with_own_channels(*batch.get_single_element())


def numbered(paths: tf.Tensor) -> tf.data.Dataset:
    """Returns a dataset of (index in `paths`, path)."""
    return tf.data.Dataset.from_tensor_slices(paths).enumerate()


def decoded(
    files: tf.data.Dataset,
    image_size: ImageSize,
    *,
    fast: bool = False,
    resize: str = "squash",
    orient: bool = True,
    serving: bool = False,
) -> tf.data.Dataset:
    """Returns a dataset of (image, whether it is grayscale, number), in order, of a dataset of (number, path).

    Files that cannot be decoded are left out. Images are float32 of shape (height, width, 1) if grayscale, else
    (height, width, 3). The other arguments are those of `image_files`; see `decode_pixels` for `serving`.
    """

    def decode(number: tf.Tensor, path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        image = _decode(tf.io.read_file(path), image_size, fast, resize, orient, serving)
        return image, tf.shape(image)[-1] < 2, number

    # Dataset.ignore_errors is the only way to catch an error in a graph.
    return files.map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).ignore_errors()


def batched(images: tf.data.Dataset, batch_size: int | tf.Tensor) -> tf.data.Dataset:
    """Returns batches of the images of `decoded`, for `with_own_channels`, and an empty batch after them."""
    # A color image sets the batch's channels to three; grayscale images are padded here.
    batches = images.padded_batch(batch_size)
    none = [tf.zeros([0, *(size or 1 for size in spec.shape[1:])], spec.dtype) for spec in batches.element_spec]
    return batches.concatenate(tf.data.Dataset.from_tensors(tuple(none)))


def with_own_channels(images: tf.Tensor, is_gray: tf.Tensor, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a batch of `batched` as (images, numbers): with one channel if all are grayscale, else with three."""
    uniform = tf.cond(
        tf.reduce_any(is_gray) & ~tf.reduce_all(is_gray),
        lambda: tf.where(is_gray[:, tf.newaxis, tf.newaxis, tf.newaxis], images[..., :1], images),
        lambda: images,
    )
    return tf.ensure_shape(uniform, images.shape), numbers


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


def _decode(
    encoded: tf.Tensor, image_size: ImageSize, fast: bool, resize: str, orient: bool, serving: bool = False
) -> tf.Tensor:
    image = decode_pixels(encoded, at_least=image_size if fast else None, orient=orient, serving=serving)
    # Values are scaled to [0, 1] before resizing; in the reverse order, a third of them differ in the last bit.
    image = tf.image.convert_image_dtype(image, tf.float32)
    if resize == "squash":
        image = tf.image.resize(image, image_size)
    else:
        # tf.image.resize_with_pad rounds down a quotient that a graph, such as a served one, computes a bit smaller.
        sides = tf.cast(tf.shape(image)[:2], tf.float32)
        scale = {"crop": tf.reduce_max, "pad": tf.reduce_min}[resize](image_size / sides)
        image = tf.image.resize(image, tf.maximum(tf.cast(tf.round(sides * scale), tf.int32), 1))
        image = tf.image.resize_with_crop_or_pad(image, *image_size)
    return tf.ensure_shape(image, (*image_size, None))


def _has_end(encoded: tf.Tensor) -> tf.Tensor:
    """Returns whether an image is not a JPEG, or has the marker of its end, usually as its last bytes."""
    # The decoder refuses a JPEG without it, but prints "Premature end of JPEG data" first, and not of which file.
    length = tf.strings.length(encoded)
    is_whole = tf.equal(tf.strings.substr(encoded, tf.maximum(length - 2, 0), 2), b"\xff\xd9") | ~tf.io.is_jpeg(encoded)
    # A camera may add something behind it. Searching nothing takes less time in every new iterator than a tf.cond.
    searched = tf.io.decode_raw(tf.strings.substr(encoded, tf.where(is_whole, length, 0), length), tf.uint8)
    return is_whole | tf.reduce_any(tf.equal(searched[:-1], 0xFF) & tf.equal(searched[1:], 0xD9))


def _decode_scaled_down(encoded: tf.Tensor, size: tf.Tensor, at_least: ImageSize, orientation: tf.Tensor) -> tf.Tensor:
    least = tf.constant(at_least, tf.int64)
    times = tf.reduce_min(size // tf.where(orientation >= 5, tf.reverse(least, [0]), least))
    number = tf.reduce_sum(tf.cast(tf.io.is_jpeg(encoded) & (times >= _RATIOS[1:]), tf.int32))
    return tf.switch_case(number, [lambda ratio=ratio: tf.io.decode_jpeg(encoded, ratio=ratio) for ratio in _RATIOS])


def size_in_header(encoded: tf.Tensor) -> tf.Tensor:
    """Returns (height, width), int64, from the header of a JPEG or PNG; `NO_SIZE` for other formats."""

    def size_of_png() -> tf.Tensor:
        header = tf.io.decode_raw(encoded, tf.int32, little_endian=False, fixed_length=24)  # padded with zeros
        is_png = tf.reduce_all(tf.equal(header[:4], _PNG))
        return tf.where(is_png, tf.cast(header[:3:-1], tf.int64), NO_SIZE)

    is_jpeg = tf.io.is_jpeg(encoded)
    return tf.cond(is_jpeg, lambda: tf.image.extract_jpeg_shape(encoded, tf.int64)[:2], size_of_png)
