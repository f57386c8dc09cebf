"""Turns images the right way up, as the EXIF orientation of a JPEG says, with TensorFlow's operations."""

from __future__ import annotations

import tensorflow as tf

_ORIENTATION = 0x0112  # the tag
_MOST_TAGS = 64
_EXIF_BYTES = 4096


def orientation_of(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the EXIF orientation of a JPEG, 1 to 8, which is 1 without one and in other formats."""
    first = tf.constant(2)
    head = _segment(encoded, first)
    # Most JPEGs have one optional segment, JFIF, or none, and need no loop, which takes as long as a small image.
    is_alone = ~_is_exif(head) & ~_is_optional(_segment(encoded, _next_segment(first, head)))
    return tf.cond(is_alone, lambda: 1, lambda: _search(encoded, first, head))


def _search(encoded: tf.Tensor, at: tf.Tensor, head: tf.Tensor) -> tf.Tensor:
    """Returns the orientation in the Exif segment, which any number of optional segments may precede."""

    def is_other(at: tf.Tensor, head: tf.Tensor) -> tf.Tensor:
        return _is_optional(head) & ~_is_exif(head)

    def take_next(at: tf.Tensor, head: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        at = _next_segment(at, head)
        return at, _segment(encoded, at)

    at, head = tf.while_loop(is_other, take_next, (at, head))
    content = tf.strings.substr(encoded, tf.minimum(at + 10, tf.strings.length(encoded)), _EXIF_BYTES)
    return tf.cond(_is_exif(head), lambda: _orientation_in(content), lambda: 1)


def _segment(encoded: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
    """Returns the first eight bytes of a segment: its marker, its length and the beginning of its content."""
    start = tf.minimum(at, tf.strings.length(encoded))
    return tf.io.decode_raw(tf.strings.substr(encoded, start, 8), tf.uint8, fixed_length=8)  # padded with zeros


def _next_segment(at: tf.Tensor, head: tf.Tensor) -> tf.Tensor:
    high, low = tf.unstack(tf.cast(head[2:4], tf.int32))
    return at + 2 + 256 * high + low


def _is_exif(head: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all(tf.equal(tf.gather(head, [0, 1, 4, 5, 6, 7]), list(b"\xff\xe1Exif")))


def _is_optional(head: tf.Tensor) -> tf.Tensor:
    """Returns whether a segment is an application's, FFE0 to FFEF, or a comment, FFFE."""
    return tf.equal(head[0], 0xFF) & (tf.equal(head[1] // 16, 0xE) | tf.equal(head[1], 0xFE))


def _orientation_in(content: tf.Tensor) -> tf.Tensor:
    """Returns the orientation in the TIFF header of an Exif segment."""
    # Everything in a small TIFF header is 16 bits wide, at an even place, or has only zeros in its upper half.
    is_little = tf.equal(tf.strings.substr(content, 0, 1), "I")
    orders = [tf.io.decode_raw(content, tf.uint16, little, 2 * _EXIF_BYTES) for little in (True, False)]
    words = tf.cast(tf.where(is_little, *orders), tf.int32)
    directory = tf.minimum(tf.where(is_little, words[2], words[3]), _EXIF_BYTES) // 2
    entries = tf.reshape(words[directory + 1 :][: 6 * _MOST_TAGS], [_MOST_TAGS, 6])
    is_tag = (entries[:, 0] == _ORIENTATION) & (tf.range(_MOST_TAGS) < words[directory])
    value = tf.reduce_max(tf.where(is_tag, entries[:, 4], 0))
    return tf.where((value >= 1) & (value <= 8), value, 1)


def turned(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Returns the image of (height, width, channels) the right way up."""

    def turn() -> tf.Tensor:
        # Not tf.transpose: for uint8, oneDNN prints that it cannot on most processors. And no further conditions, whose
        # functions every new dataset would trace and optimize.
        height, width, channels = tf.unstack(tf.shape(image))
        is_transposed = orientation >= 5
        rows = reversed_if(tf.reduce_any(tf.equal(orientation, (3, 4, 6, 7))), height)
        columns = reversed_if(tf.reduce_any(tf.equal(orientation, (2, 3, 7, 8))), width)
        down, right = tf.where(is_transposed, [1, -1], [-1, 1]), tf.where(is_transposed, [-1, 1], [1, -1])
        places = tf.reshape(rows * width, down) + tf.reshape(columns, right)
        return tf.gather(tf.reshape(image, [-1, channels]), places)

    return tf.cond(orientation > 1, turn, lambda: image)


def reversed_if(condition: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Returns the numbers below `length`, from the last one if the condition holds."""
    places = tf.range(length)
    return tf.where(condition, length - 1 - places, places)
