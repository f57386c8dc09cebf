"""Images that Pillow decodes."""

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_train.input_fns.images.decoding import decode_pixels

GRADIENT = np.arange(0, 2**16, 1024, dtype=np.uint16).reshape(8, 8)


@pytest.mark.parametrize("kind", ["TIFF", "WEBP", "BMP", "GIF"])
def test_a_tensor_of_bytes_is_decoded_as_the_bytes_are(kind):
    file = io.BytesIO()
    Image.fromarray((GRADIENT >> 8).astype(np.uint8)).save(file, kind)
    content = file.getvalue()
    np.testing.assert_array_equal(decode_pixels(tf.constant(content)), decode_pixels(content))


def test_a_tiff_of_16_bits_may_have_white_as_zero():
    content = GRADIENT.astype("<u2").tobytes()
    tags = {256: 8, 257: 8, 258: 16, 259: 1, 262: 0, 273: 8, 277: 1, 278: 8, 279: len(content)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    header = b"II*\x00" + struct.pack("<I", 8 + len(content))
    pixels = decode_pixels(header + content + struct.pack("<H", len(tags)) + entries + bytes(4))
    np.testing.assert_array_equal(pixels[..., 0], 255 - (GRADIENT >> 8))
