"""The EXIF orientation of JPEGs."""

import io

import numpy as np
import tensorflow as tf
from PIL import Image

from estimator_train.input_fns.images.decoding import decode_pixels
from estimator_train.input_fns.images.orientation import orientation_of


def segment(marker, content):
    return b"\xff" + bytes([marker]) + (2 + len(content)).to_bytes(2, "big") + content


def test_the_orientation_is_found_behind_any_segments():
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    Image.fromarray(np.zeros((8, 16), np.uint8)).save(file, "JPEG")
    jfif, rest = file.getvalue()[2:20], file.getvalue()[20:]
    profile, comment, xmp = segment(0xE2, bytes(65000)), segment(0xFE, b"hello"), segment(0xE1, b"http://ns.adobe.com/")
    turned = segment(0xE1, exif.tobytes())
    find = tf.function(orientation_of, [tf.TensorSpec([], tf.string)])
    for before in ([], [jfif], [comment], [jfif, comment], [jfif, profile, xmp, profile], [segment(0xE0, bytes(300))]):
        encoded = b"\xff\xd8" + b"".join(before)
        assert find(encoded + turned + rest) == 6
        assert find(encoded + rest) == find(encoded) == find(encoded + turned[:9]) == 1
    assert decode_pixels(encoded + turned + rest).shape == (16, 8, 1)
