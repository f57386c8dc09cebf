"""Decodes image files to float32 images.

Grayscale images are decoded and resized with one channel and converted to RGB at the end. The values are the same, bit
for bit, and a 512 x 496 JPEG takes a fifth less processor time.

An encoded image reaches TensorFlow's decoders only if its header is that of a JPEG or PNG of bounded size. The decoders
would also accept GIF, BMP and WebP, but an animated WebP corrupts their heap, and a GIF is unpacked with all its frames
before its size is known. Pillow decodes these, and TIFF. A SavedModel and the workers of a tf.data service cannot call
Pillow: TensorFlow's operations check the headers of GIF, BMP and WebP there, and refuse TIFF.

JPEG and TIFF files are turned as their EXIF orientation says.
"""

from __future__ import annotations

import functools
import importlib
import io
import math
import struct
from collections.abc import Callable

import numpy as np
import tensorflow as tf

MAX_PIXELS = 89_478_485  # the same as Pillow's Image.MAX_IMAGE_PIXELS: a quarter of a gigabyte of RGB

RESIZES = ("squash", "crop", "pad")

_PNG = struct.unpack(">4i", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")  # width and height follow
_NO_SIZE = np.full(2, 2**31, np.int64)  # larger than any JPEG or PNG
_RATIOS = (1, 2, 4, 8)  # factors by which the decoder can scale a JPEG down
_EXIF = np.frombuffer(b"Exif", np.uint8)
_ORIENTATION, _BITS_PER_SAMPLE = 0x0112, 0x0102  # the tags
_MOST_TAGS = 64
_EXIF_BYTES = 4096


def decode_image(
    encoded: tf.Tensor,
    image_size: tuple[int, int],
    *,
    resize: str = "squash",
    orient: bool = True,
    serving: bool = False,
) -> tf.Tensor:
    """Decodes an image, given as a string scalar, to a float32 RGB image of (height, width, 3) in [0, 1].

    Args:
      image_size: (height, width).
      resize, orient: see `decoded`.
      serving: see `decode_pixels`.

    Raises:
      tf.errors.InvalidArgumentError: the image has another format, is damaged, or has more than `MAX_PIXELS`.
    """
    return to_rgb(_decode(encoded, image_size, False, resize, orient, serving))


def decode_pixels(
    encoded: tf.Tensor, *, at_least: tuple[int, int] | None = None, orient: bool = True, serving: bool = False
) -> tf.Tensor:
    """Decodes an image without resizing: uint8 of (height, width, 1 or 3).

    Args:
      encoded: a string scalar.
      at_least: (height, width). The JPEG decoder scales the image down as far as it stays at least this large; None
        keeps the original size.
      orient: whether to turn a JPEG or TIFF as its EXIF orientation says.
      serving: whether to use TensorFlow's operations only, as a SavedModel or another process must; they decode all
        formats but TIFF.

    Raises:
      tf.errors.InvalidArgumentError: see `decode_image`.
    """
    # This runs once per image, so every operation counts; tf.debugging.Assert, for one, would add a tf.cond.
    size = _size(encoded)
    with tf.init_scope():
        is_eager = tf.executing_eagerly()
    decode = _traced_once(at_least, orient) if is_eager else _decoder_of_jpeg_and_png(at_least, orient)
    other = _decode_for_serving if serving else functools.partial(_decode_with_pillow, orient=orient)
    image = tf.cond(size[0] < _NO_SIZE[0], lambda: decode(encoded, size), lambda: other(encoded))
    without_alpha = tf.bitwise.bitwise_or(tf.shape(image) - [0, 0, 1], [0, 0, 1])  # 1 or 3 channels of 1 to 4
    return tf.slice(image, [0, 0, 0], without_alpha)


@functools.cache
def _traced_once(at_least: tuple[int, int] | None, orient: bool) -> Callable[..., tf.Tensor]:
    """Returns a `_decoder_of_jpeg_and_png` whose trace takes half of the time of making the first dataset of images.

    Not for v1 graphs: a tf.function keeps each graph that has called it.
    """
    specs = [tf.TensorSpec([], tf.string), tf.TensorSpec([2], tf.int64)]
    return tf.function(_decoder_of_jpeg_and_png(at_least, orient), specs, autograph=False)


def _decoder_of_jpeg_and_png(at_least: tuple[int, int] | None, orient: bool) -> Callable[..., tf.Tensor]:
    """Returns a function (encoded image, its size) -> uint8 of (height, width, 1 to 4)."""

    def decode(encoded: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([_assert_decodable(tf.reduce_prod(size) <= MAX_PIXELS)]):
            turned = _orientation(encoded) if orient else 1
            # decode_jpeg decodes PNG as well. The alpha channel is dropped later, as `channels=3` would drop it.
            image = _decode_scaled_down(encoded, size, at_least, turned) if at_least else tf.io.decode_jpeg(encoded)
        return _turned(image, turned) if orient else image

    return decode


def decode_files(
    paths: tf.Tensor, image_size: tuple[int, int], *, resize: str = "squash", orient: bool = True
) -> tuple[tf.Tensor, tf.Tensor]:
    """Decodes files in parallel; returns the images that can be decoded and their indices in `paths`, in order."""
    images, places = decode_own_channels(paths, image_size, resize=resize, orient=orient)
    return to_rgb(images), places


def decode_own_channels(
    paths: tf.Tensor,
    image_size: tuple[int, int],
    *,
    fast: bool = False,
    resize: str = "squash",
    orient: bool = True,
    serving: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Like `decode_files`, but an all-grayscale batch keeps one channel; see `decoded` for the arguments."""
    images = decoded(numbered(paths), image_size, fast=fast, resize=resize, orient=orient, serving=serving)
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
    image_size: tuple[int, int],
    *,
    fast: bool = False,
    resize: str = "squash",
    orient: bool = True,
    serving: bool = False,
) -> tf.data.Dataset:
    """Returns a dataset of (image, whether it is grayscale, number), in order.

    Files that cannot be decoded are left out. Images are float32 of shape (height, width, 1) if grayscale, else
    (height, width, 3).

    Args:
      files: a dataset of (number, path).
      image_size: (height, width).
      fast: whether the JPEG decoder scales down images that are at least twice as large, which makes resizing cheaper.
      resize: "squash" changes the aspect ratio to that of `image_size`; "crop" keeps it, and cuts off what is over on
        two sides; "pad" keeps it, and adds black borders.
      orient, serving: see `decode_pixels`.
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


def fault_of_file(path: tf.Tensor, *, serving: bool = False) -> tf.Tensor:
    """Returns why a file cannot be decoded, such as "no readable image"; call it only for such a file.

    `serving`: see `decode_pixels`.
    """
    # The file may be gone or its header damaged. Dataset.ignore_errors is the only way to catch an error in a graph.
    sizes = tf.data.Dataset.from_tensors(path).map(lambda path: _size(tf.io.read_file(path))).ignore_errors()
    size = sizes.concatenate(tf.data.Dataset.from_tensors(_NO_SIZE)).take(1).get_single_element()
    height, width = tf.unstack(tf.strings.as_string(size))
    too_large = tf.strings.join(["its ", width, " x ", height, f" pixels exceed {MAX_PIXELS} (scale it down)"])
    is_large = (tf.reduce_prod(size) > MAX_PIXELS) & (size[0] < _NO_SIZE[0])
    unreadable = "no readable image (a tf.data service reads no TIFF)" if serving else "no readable image"
    return tf.where(is_large, too_large, unreadable)


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
    encoded: tf.Tensor,
    image_size: tuple[int, int],
    fast: bool,
    resize: str,
    orient: bool,
    serving: bool = False,
) -> tf.Tensor:
    image = decode_pixels(encoded, at_least=image_size if fast else None, orient=orient, serving=serving)
    # Values are scaled to [0, 1] before resizing; in the reverse order, a third of them differ in the last bit.
    image = tf.image.convert_image_dtype(image, tf.float32)
    if resize == "pad":
        image = tf.image.resize_with_pad(image, *image_size)
    elif resize == "crop":
        sides = tf.cast(tf.shape(image)[:2], tf.float32)
        scaled = tf.cast(tf.round(sides * tf.reduce_max(image_size / sides)), tf.int32)
        image = tf.image.resize(image, tf.maximum(scaled, image_size))
        image = tf.image.resize_with_crop_or_pad(image, *image_size)
    else:
        image = tf.image.resize(image, image_size)
    return tf.ensure_shape(image, (*image_size, None))


def _assert_decodable(condition: tf.Tensor) -> tf.Operation:
    message = "an image", f"cannot be decoded: it is not a readable image of at most {MAX_PIXELS} pixels"
    return tf.raw_ops.Assert(condition=condition, data=message)


def _orientation(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the EXIF orientation of a JPEG, 1 to 8, which is 1 without one."""
    head = tf.io.decode_raw(encoded, tf.uint8, fixed_length=32)  # padded with zeros
    # The Exif segment comes first, or after a JFIF segment of 18 bytes.
    is_first, is_second = (tf.reduce_all(tf.equal(head[at : at + 4], _EXIF)) for at in (6, 24))

    def read() -> tf.Tensor:
        # Everything in a small TIFF header is 16 bits wide, at an even place, or has only zeros in its upper half.
        content = tf.strings.substr(encoded, tf.where(is_first, 12, 30), _EXIF_BYTES)
        is_little = tf.equal(tf.strings.substr(content, 0, 1), "I")
        orders = [tf.io.decode_raw(content, tf.uint16, little, 2 * _EXIF_BYTES) for little in (True, False)]
        words = tf.cast(tf.where(is_little, *orders), tf.int32)
        directory = tf.minimum(tf.where(is_little, words[2], words[3]), _EXIF_BYTES) // 2
        entries = tf.reshape(words[directory + 1 :][: 6 * _MOST_TAGS], [_MOST_TAGS, 6])
        is_tag = (entries[:, 0] == _ORIENTATION) & (tf.range(_MOST_TAGS) < words[directory])
        value = tf.reduce_max(tf.where(is_tag, entries[:, 4], 0))
        return tf.where((value >= 1) & (value <= 8), value, 1)

    return tf.cond(is_first | is_second, read, lambda: 1)


def _turned(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    def turn() -> tf.Tensor:
        # Not tf.transpose: for uint8, oneDNN prints that it cannot on most processors. And no further conditions, whose
        # functions every new dataset would trace and optimize.
        height, width, channels = tf.unstack(tf.shape(image))
        is_transposed = orientation >= 5
        rows = _reversed_if(tf.reduce_any(tf.equal(orientation, (3, 4, 6, 7))), height)
        columns = _reversed_if(tf.reduce_any(tf.equal(orientation, (2, 3, 7, 8))), width)
        down, right = tf.where(is_transposed, [1, -1], [-1, 1]), tf.where(is_transposed, [-1, 1], [1, -1])
        places = tf.reshape(rows * width, down) + tf.reshape(columns, right)
        return tf.gather(tf.reshape(image, [-1, channels]), places)

    return tf.cond(orientation > 1, turn, lambda: image)


def _reversed_if(condition: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    places = tf.range(length)
    return tf.where(condition, length - 1 - places, places)


def _decode_with_pillow(encoded: tf.Tensor, *, orient: bool) -> tf.Tensor:
    decode = functools.partial(_pixels_of_pillow, orient=orient)
    image = tf.ensure_shape(tf.numpy_function(decode, [encoded], tf.uint8, stateful=False), (None, None, None))
    with tf.control_dependencies([_assert_decodable(tf.size(image) > 0)]):
        return tf.identity(image)


def _pixels_of_pillow(encoded: bytes, *, orient: bool) -> np.ndarray:
    """Returns the pixels of a still WebP, a BMP, the first frame of a GIF, or a TIFF of up to 16 bits.

    Returns an empty array for others.
    """
    none = np.zeros((0, 0, 1), np.uint8)
    try:  # the library does without Pillow
        pillow, operations = importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageOps")
        with pillow.open(io.BytesIO(encoded), formats=("WEBP", "BMP", "GIF", "TIFF")) as image:
            is_animated = image.format == "WEBP" and getattr(image, "is_animated", False)
            if is_animated or math.prod(image.size) > MAX_PIXELS:
                return none
            bits = max(getattr(image, "tag_v2", {}).get(_BITS_PER_SAMPLE, (16,)))
            if orient and image.format == "TIFF":
                image = operations.exif_transpose(image)
            if image.mode in ("F", "I"):  # nothing says which value is white
                return none
            if image.mode.startswith("I;16"):
                pixels = (np.asarray(image) >> bits - 8).astype(np.uint8)
            else:
                pixels = np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except Exception:  # its plugins raise errors of many classes
        return none
    return pixels if pixels.ndim == 3 else pixels[..., np.newaxis]


def _decode_for_serving(encoded: tf.Tensor) -> tf.Tensor:
    """Decodes a still WebP, a BMP, or the first frame of a GIF with TensorFlow's operations."""
    head = tf.cast(tf.io.decode_raw(encoded, tf.uint8, fixed_length=32), tf.int64)  # padded with zeros

    def starts(text: bytes, at: int = 0) -> tf.Tensor:
        return tf.reduce_all(tf.equal(head[at : at + len(text)], list(text)))

    def number(at: int, size: int) -> tf.Tensor:
        return tf.reduce_sum(head[at : at + size] * [256**place for place in range(size)])

    def sides(*values: tf.Tensor) -> tf.Tensor:
        return tf.stack([tf.cast(value, tf.int64) for value in values])

    bits = number(21, 4)
    is_large, is_lossless = starts(b"VP8X", 12), starts(b"VP8L", 12)
    of_webp = tf.where(
        is_large,
        sides(1 + number(24, 3), 1 + number(27, 3)),
        tf.where(
            is_lossless,
            sides(1 + bits % 2**14, 1 + bits // 2**14 % 2**14),
            sides(number(26, 2) % 2**14, number(28, 2) % 2**14),
        ),
    )
    of_bmp = sides(number(18, 4), tf.abs(tf.cast(number(22, 4), tf.int32)))  # a negative height: rows from the top
    of_gif = sides(number(6, 2), number(8, 2))
    is_still = starts(b"RIFF") & starts(b"WEBP", 8) & ~(is_large & (head[20] // 2 % 2 == 1))
    formats = (starts(b"BM"), of_bmp), (starts(b"GIF8"), of_gif), (is_still, of_webp)
    size = tf.constant(_NO_SIZE)
    for is_format, of_format in formats:
        size = tf.where(is_format, of_format, size)
    with tf.control_dependencies([_assert_decodable(tf.reduce_prod(size) <= MAX_PIXELS)]):
        # Not decode_webp, an operation that servers with an older TensorFlow lack.
        image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
    return tf.ensure_shape(image, (None, None, None))


def _decode_scaled_down(
    encoded: tf.Tensor, size: tf.Tensor, at_least: tuple[int, int], orientation: tf.Tensor
) -> tf.Tensor:
    least = tf.constant(at_least, tf.int64)
    times = tf.reduce_min(size // tf.where(orientation >= 5, tf.reverse(least, [0]), least))
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
