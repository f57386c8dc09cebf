"""Turns images the right way up, as the EXIF orientation of a JPEG says, with TensorFlow's operations."""

import tensorflow as tf

_ORIENTATION = 0x0112  # the tag
_MOST_TAGS = 64
_EXIF_BYTES = 4096
# From here on, markers are of applications or of comments, whose segments may precede Exif; the image's are lower.
_OPTIONAL = 0xFFE0
_EXIF = 0xFFE1, 0x4578, 0x6966  # the marker, and "Exif" in two words
_SHORT_JFIF = 16  # the length of a JFIF segment without a thumbnail


def orientation_of(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the EXIF orientation of a JPEG, 1 to 8, which is 1 without one and in other formats."""
    # Each operation here takes time in every new iterator, and each function of a condition or a loop much more. Most
    # JPEGs have one optional segment, a short JFIF, or none, and need no loop, which takes as long as a small image.
    head = tf.io.decode_raw(encoded, tf.uint16, little_endian=False, fixed_length=32)  # padded with zeros
    first, length, second = tf.unstack(tf.cast(tf.gather(head, (1, 2, 10)), tf.int32))
    has_none = (first < _OPTIONAL) | (tf.equal(length, _SHORT_JFIF) & (second < _OPTIONAL))
    return tf.cond(has_none, lambda: 1, lambda: _search(encoded))


def _search(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the orientation in the Exif segment, which any number of optional segments may precede."""

    def head_of(at: tf.Tensor) -> tf.Tensor:
        """Returns a segment's marker, its length without the marker, and the beginning of its content, in words."""
        start = tf.minimum(at, tf.strings.length(encoded))
        head = tf.io.decode_raw(tf.strings.substr(encoded, start, 8), tf.uint16, False, 8)  # padded with zeros
        return tf.cast(head, tf.int32)

    def is_exif(head: tf.Tensor) -> tf.Tensor:
        return tf.reduce_all(tf.equal(tf.gather(head, (0, 2, 3)), _EXIF))

    def take_next(at: tf.Tensor, head: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        at = at + 2 + head[1]
        return at, head_of(at)

    start = tf.constant(2)
    at, head = tf.while_loop(
        lambda at, head: (head[0] >= _OPTIONAL) & ~is_exif(head), take_next, (start, head_of(start))
    )
    content = tf.strings.substr(encoded, tf.minimum(at + 10, tf.strings.length(encoded)), _EXIF_BYTES)
    return tf.where(is_exif(head), _orientation_in(content), 1)


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
