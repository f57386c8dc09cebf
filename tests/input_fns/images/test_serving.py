"""Images in an exported model: the same pixels as in training, or a refusal."""

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_train.input_fns.images.decoding import decode_pixels

PIXELS = np.kron(np.random.default_rng(0).integers(0, 256, (5, 7, 4)), np.ones((4, 3, 1))).astype(np.uint8)
COLOUR = Image.fromarray(PIXELS[..., :3])
PALETTE = COLOUR.quantize(16)


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def bmp(bits, upside_down=False, compression=0):
    """Returns a BMP of 21 x 20 pixels, each a number of so many bits, with a palette."""
    numbers = np.random.default_rng(bits).integers(0, 2**bits, (20, 21), np.uint8)
    rows = np.packbits(np.unpackbits(numbers[..., np.newaxis], axis=-1)[..., 8 - bits :].reshape(20, -1), axis=-1)
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 4)))
    palette = np.random.default_rng(9).integers(0, 256, (2**bits, 4), np.uint8).tobytes()
    start = 54 + len(palette)
    height = -20 if upside_down else 20
    header = struct.pack("<2sIIIIiiHHIIiiII", b"BM", start + rows.size, 0, start, 40, 21, height, 1, bits, compression,
                         rows.size, 0, 0, 0, 0)  # fmt: skip
    return header + palette + rows.tobytes()


ENCODED = {
    "colour.bmp": saved(COLOUR, "BMP"),
    "alpha.bmp": saved(Image.fromarray(PIXELS), "BMP"),
    "gray.bmp": saved(COLOUR.convert("L"), "BMP"),
    "black and white.bmp": saved(COLOUR.convert("1"), "BMP"),
    "palette.bmp": saved(PALETTE, "BMP"),
    "1 bit.bmp": bmp(1),
    "4 bits.bmp": bmp(4),
    "8 bits from the top.bmp": bmp(8, upside_down=True),
    "palette.gif": saved(PALETTE, "GIF"),
    "transparent.gif": saved(PALETTE, "GIF", transparency=3),
    "animated.gif": saved(PALETTE, "GIF", save_all=True, append_images=[PALETTE.rotate(180)]),
    "colour.webp": saved(COLOUR, "WEBP"),
    "alpha.webp": saved(Image.fromarray(PIXELS), "WEBP", lossless=True, exact=True),
}  # fmt: skip


@pytest.fixture(scope="module")
def served():
    """Decodes an image as an exported model does."""
    return tf.function(lambda encoded: decode_pixels(encoded, serving=True), [tf.TensorSpec([], tf.string)])


@pytest.mark.parametrize("name", ENCODED)
def test_an_exported_model_decodes_what_training_decodes(served, name):
    if name.endswith("webp") and not hasattr(tf.io, "decode_webp"):
        pytest.skip("this TensorFlow decodes no WebP")
    pixels = decode_pixels(ENCODED[name]).numpy()
    expected = np.asarray(Image.open(io.BytesIO(ENCODED[name])).convert("RGB"))
    assert np.array_equal(np.broadcast_to(pixels, expected.shape), expected) or name == "transparent.gif"
    np.testing.assert_array_equal(np.broadcast_to(served(ENCODED[name]), expected.shape) - pixels, 0)


def test_transparent_pixels_of_a_gif_are_black():
    is_transparent = np.asarray(PALETTE) == 3
    assert is_transparent.any() and not decode_pixels(ENCODED["transparent.gif"]).numpy()[is_transparent].any()


def test_an_exported_model_refuses_what_it_would_decode_otherwise(served):
    partial = bytearray(ENCODED["palette.gif"])
    struct.pack_into("<2H", partial, 6, 30, 30)  # the canvas, which the frame does not fill
    of_16_bits = bmp(8).replace(struct.pack("<HHI", 1, 8, 0), struct.pack("<HHI", 1, 16, 0), 1)
    refused = [bytes(partial), of_16_bits, bmp(8, compression=1), saved(COLOUR, "TIFF")]
    for encoded in refused:
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="not a readable JPEG, PNG, still WebP, uncompressed BM"
        ):
            served(encoded)
    with pytest.raises(tf.errors.InvalidArgumentError):
        served(bmp(4)[:-9])
