"""Decodes WebP, BMP and GIF to the same pixels as Pillow, with TensorFlow's operations alone.

A SavedModel and the workers of a tf.data service cannot call Pillow. TensorFlow's decoders trust their input, and do
not know palettes of BMP, so the header is read first.
"""

import tensorflow as tf

from estimator_train.input_fns.images.bounds import MAX_PIXELS, NO_SIZE, assert_decodable
from estimator_train.input_fns.images.orientation import reversed_if

_UNREADABLE = (
    "it is not a readable JPEG, PNG, still WebP, uncompressed BMP, or GIF whose first frame fills it, of at most "
    f"{MAX_PIXELS} pixels"
)
_BMP_HEADER = 14  # bytes before the header that describes the pixels


def decode_for_serving(encoded: tf.Tensor) -> tf.Tensor:
    """Decodes a still WebP, an uncompressed BMP, or the first frame of a GIF: uint8 of (height, width, 1, 3 or 4).

    Raises tf.errors.InvalidArgumentError if the image is another one, is damaged, or has more than `MAX_PIXELS`.
    """
    header = _Header(encoded)
    with tf.control_dependencies([assert_decodable(tf.reduce_prod(header.size) <= MAX_PIXELS, _UNREADABLE)]):
        # Not decode_webp, an operation that servers with an older TensorFlow lack.
        image = tf.cond(
            header.has_palette,
            lambda: _bmp_with_palette(encoded, header),
            lambda: tf.io.decode_image(encoded, expand_animations=False),
        )
    is_whole = tf.reduce_all(tf.shape(image, tf.int64)[:2] == header.size)
    with tf.control_dependencies([assert_decodable(is_whole, _UNREADABLE)]):
        return tf.ensure_shape(tf.identity(image), (None, None, None))


class _Header:
    """Reads the size and the layout of the pixels from the first bytes of a WebP, BMP or GIF."""

    def __init__(self, encoded: tf.Tensor) -> None:
        self._head = tf.cast(tf.io.decode_raw(encoded, tf.uint8, fixed_length=40), tf.int64)  # padded with zeros
        is_bmp = self._starts(b"BM")
        self.bits = self._number(28, 2)  # per pixel of a BMP
        self.has_palette = is_bmp & tf.reduce_any(tf.equal(self.bits, (1, 4, 8)))
        self.pixels_at, length, signed_height = self._number(10, 4), self._number(14, 4), self._number(22, 4)
        self.palette_at = _BMP_HEADER + length
        self.rows_from_top = signed_height >= 2**31  # whether the first row of a BMP is the upper one
        has_colors = tf.reduce_any(tf.equal(self.bits, (24, 32)))
        is_plain = is_bmp & (length >= 40) & (self._number(30, 4) < 1) & (self.has_palette | has_colors)
        height = tf.abs(tf.cast(tf.cast(signed_height, tf.int32), tf.int64))
        self.size = tf.constant(NO_SIZE)  # (height, width), above `MAX_PIXELS` if the image cannot be decoded
        for is_format, size in (
            (is_plain, (height, self._number(18, 4))),
            (self._starts(b"GIF8"), (self._number(8, 2), self._number(6, 2))),
            (self._is_still_webp(), self._size_of_webp()),
        ):
            self.size = tf.where(is_format, tf.stack(size), self.size)

    def _starts(self, text: bytes, at: int = 0) -> tf.Tensor:
        return tf.reduce_all(tf.equal(self._head[at : at + len(text)], list(text)))

    def _number(self, at: int, size: int) -> tf.Tensor:
        return tf.reduce_sum(self._head[at : at + size] * [256**place for place in range(size)])

    def _is_still_webp(self) -> tf.Tensor:
        is_animated = self._starts(b"VP8X", 12) & (self._head[20] // 2 % 2 == 1)
        return self._starts(b"RIFF") & self._starts(b"WEBP", 8) & ~is_animated

    def _size_of_webp(self) -> tuple[tf.Tensor, tf.Tensor]:
        bits = self._number(21, 4)
        extended = 1 + self._number(27, 3), 1 + self._number(24, 3)
        lossless = 1 + bits // 2**14 % 2**14, 1 + bits % 2**14
        lossy = self._number(28, 2) % 2**14, self._number(26, 2) % 2**14
        chosen = tf.where(self._starts(b"VP8L", 12), tf.stack(lossless), tf.stack(lossy))
        height, width = tf.unstack(tf.where(self._starts(b"VP8X", 12), tf.stack(extended), chosen))
        return height, width


def _bmp_with_palette(encoded: tf.Tensor, header: _Header) -> tf.Tensor:
    """Returns the colors of a BMP whose pixels are numbers of 1, 4 or 8 bits; each row fills whole words of 32 bits."""
    height, width = tf.unstack(header.size)
    bits = header.bits
    row = (width * bits + 31) // 32 * 4
    rows = tf.io.decode_raw(tf.strings.substr(encoded, header.pixels_at, height * row), tf.uint8)
    places = tf.constant([7, 6, 5, 4, 3, 2, 1, 0], tf.uint8)
    single = tf.bitwise.right_shift(tf.reshape(rows, [height, row, 1]), places) & 1
    numbers = tf.bitwise.left_shift(tf.reshape(single, [height, row * 8 // bits, bits]), places[8 - bits :])
    numbers = tf.cast(tf.reduce_sum(numbers, axis=-1)[:, :width], tf.int32)
    of_palette = (header.pixels_at - header.palette_at) // 4 * 4
    palette = tf.io.decode_raw(tf.strings.substr(encoded, header.palette_at, of_palette), tf.uint8)
    colors = tf.gather(tf.reshape(palette, [-1, 4])[:, 2::-1], numbers)  # blue, green, red and a zero in the file
    return tf.gather(colors, reversed_if(~header.rows_from_top, tf.cast(height, tf.int32)))
