"""The largest image that is decoded, and the error about one that is not decoded."""

import numpy as np
import tensorflow as tf

MAX_PIXELS = 89_478_485  # the same as Pillow's Image.MAX_IMAGE_PIXELS: a quarter of a gigabyte of RGB
NO_SIZE = np.full(2, 2**31, np.int64)  # larger than any image
UNREADABLE = f"it is not a readable image of at most {MAX_PIXELS} pixels"


def assert_decodable(condition: tf.Tensor, fault: str = UNREADABLE) -> tf.Operation:
    """Returns an op that fails with the fault of an encoded image unless the condition holds."""
    return tf.raw_ops.Assert(condition=condition, data=("an image", f"cannot be decoded: {fault}"))
