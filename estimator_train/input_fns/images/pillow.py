"""Decodes WebP, BMP, GIF and TIFF with Pillow, which the library does without."""

import functools
import importlib
import io
import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train.input_fns.images.bounds import MAX_PIXELS, assert_decodable

_BITS_PER_SAMPLE, _SAMPLE_FORMAT, _PHOTOMETRIC, _WHITE_IS_ZERO = 0x0102, 0x0153, 0x0106, 0  # tags; a value of the last
_SAMPLE_FORMATS = {1: "integers", 2: "signed integers", 3: "floats"}
_WIDE = ("F", "I")  # modes of images of which nothing says which value is white
_NAMES = {"WEBP": "WebP", "JPEG2000": "JPEG 2000"}  # of formats, where others write them otherwise than Pillow
_INTACT = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "JPEG2000")


def decode_with_pillow(encoded: tf.Tensor, *, orient: bool) -> tf.Tensor:
    """Decodes a still WebP, a BMP, the first frame of a GIF or a TIFF of up to 16 bits: uint8, with 1 or 3 channels.

    Raises tf.errors.InvalidArgumentError if the image has another format, is damaged, or has more than `MAX_PIXELS`.
    """
    decode = functools.partial(_pixels, orient=orient)
    encoded = tf.convert_to_tensor(encoded, tf.string)  # an array of bytes would lose zeros at its end
    image = tf.ensure_shape(tf.numpy_function(decode, [encoded], tf.uint8, stateful=False), (None, None, None))
    with tf.control_dependencies([assert_decodable(tf.size(image) > 0)]):
        return tf.identity(image)


def read_but_refused(content: bytes) -> tuple[str, str] | None:
    """Returns what an intact image is that this package does not decode, and what to do with it.

    None means that Pillow cannot read it, either, or is not installed.
    """
    try:
        pillow = importlib.import_module("PIL.Image")
    except ImportError:
        return None
    try:
        with warnings.catch_warnings(), pillow.open(io.BytesIO(content), formats=_INTACT) as image:
            warnings.simplefilter("ignore")  # of large images
            if math.prod(image.size) > MAX_PIXELS:
                return "its {} x {} pixels exceed {}".format(*image.size, MAX_PIXELS), "scale it down"
            tags = getattr(image, "tag_v2", {})
            image.load()
    except Exception:  # as below
        return None
    name = _NAMES.get(image.format, image.format)
    if image.mode in _WIDE:
        kind = _SAMPLE_FORMATS.get(max(tags.get(_SAMPLE_FORMAT, (1,))), "numbers")
        wide = f"a {name} of {max(tags.get(_BITS_PER_SAMPLE, (32,)))}-bit {kind}"
        return f"{wide}, of which nothing says which value is white", "convert it to 8 or to unsigned 16 bits"
    if getattr(image, "is_animated", False):
        return f"an animated {name}", "save one of its frames as an image"
    return f"a {name} that TensorFlow does not decode", "convert it to PNG"


def _pixels(encoded: bytes | np.ndarray, *, orient: bool) -> np.ndarray:
    """Returns the pixels of an image, which in eager mode is given as an array of one object; none if it is refused."""
    none = np.zeros((0, 0, 1), np.uint8)
    content = encoded if isinstance(encoded, bytes) else encoded.item()
    try:
        pillow, operations = importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageOps")
    except ImportError:
        return none
    try:
        with pillow.open(io.BytesIO(content), formats=("WEBP", "BMP", "GIF", "TIFF")) as image:
            is_animated = image.format == "WEBP" and getattr(image, "is_animated", False)
            if is_animated or math.prod(image.size) > MAX_PIXELS:
                return none
            tags = getattr(image, "tag_v2", {})
            turned = operations.exif_transpose(image) if orient and image.format == "TIFF" else image
            if turned.mode.startswith("I;16"):
                return np.atleast_3d(_pixels_of_16_bits(turned, tags))
            return np.atleast_3d(_pixels_of_8_bits(turned))
    except Exception:  # its plugins raise errors of many classes
        return none


def _pixels_of_16_bits(image: Any, tags: Mapping[int, Any]) -> np.ndarray:
    """Returns the upper 8 of the bits that a TIFF has in each sample."""
    bits = max(tags.get(_BITS_PER_SAMPLE, (16,)))
    pixels = (np.asarray(image) >> bits - 8).astype(np.uint8)
    # Pillow inverts such images of up to 8 bits itself.
    return 255 - pixels if tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO else pixels


def _pixels_of_8_bits(image: Any) -> np.ndarray:
    if image.mode in _WIDE:
        return np.zeros((0, 0, 1), np.uint8)
    if image.format == "GIF" and "transparency" in image.info:
        # Transparent pixels become black, as in TensorFlow's decoder, which exported models use.
        colors = np.asarray(image.convert("RGBA"))
        return colors[..., :3] * (colors[..., 3:] > 0)
    if image.mode in ("1", "L", "LA"):
        return np.asarray(image.convert("L"))
    return np.asarray(image.convert("RGB"))
