"""The Dice coefficient, 2 |A ∩ B| / (|A| + |B|), of a mask and its prediction: as a loss and as a metric of Keras.

Both take masks of 0 and 1 and probabilities, of one shape (batch, ...), and give a value an example: (batch,), float32.
Source: Milletari, Navab and Ahmadi, "V-Net" (2016); theirs squares the sums of the denominator.
"""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

_SMOOTH = 1.0  # voxels: where nothing is to be found and nothing is, the coefficient is 1


@keras.utils.register_keras_serializable("estimator_train")
def dice_loss(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """1 less the coefficient, in which probabilities count as they are."""
    return 1 - _dice(y_true, y_pred)


@keras.utils.register_keras_serializable("estimator_train")
def bce_dice_loss(y_true: tf.Tensor, y_pred: tf.Tensor, *, positive_weight: float = 4.0) -> tf.Tensor:
    """`dice_loss` plus the mean binary cross-entropy, in which a pixel of the mask counts `positive_weight` times.

    Cross-entropy gives every pixel a gradient from the first step on, and the weight makes up for masks of few pixels.
    """
    y_true, y_pred = tf.cast(y_true, tf.float32), tf.cast(y_pred, tf.float32)
    weights = 1 + (positive_weight - 1) * y_true
    entropy = weights * keras.backend.binary_crossentropy(y_true, y_pred)
    return dice_loss(y_true, y_pred) + tf.reduce_mean(entropy, axis=tf.range(1, tf.rank(entropy)))


@keras.utils.register_keras_serializable("estimator_train")
def dice_coefficient(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """The coefficient, in which a probability above 0.5 counts as 1."""
    return _dice(y_true, y_pred > 0.5)


def _dice(a, b):
    a, b = (tf.reshape(tf.cast(mask, tf.float32), [tf.shape(mask)[0], -1]) for mask in (a, b))
    overlap = tf.reduce_sum(a * b, axis=1)
    return (2 * overlap + _SMOOTH) / (tf.reduce_sum(a, axis=1) + tf.reduce_sum(b, axis=1) + _SMOOTH)
