"""The largest image that is decoded, and the error about one that is not decoded."""

from __future__ import annotations

import tensorflow as tf

MAX_PIXELS = 89_478_485  # the same as Pillow's Image.MAX_IMAGE_PIXELS: a quarter of a gigabyte of RGB


def assert_decodable(condition: tf.Tensor, readable: str = "image") -> tf.Operation:
    """Returns an op that fails unless an encoded image is `readable` and of bounded size."""
    message = "an image", f"cannot be decoded: it is not a readable {readable} of at most {MAX_PIXELS} pixels"
    return tf.raw_ops.Assert(condition=condition, data=message)
