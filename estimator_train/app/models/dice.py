"""The Dice coefficient, 2 |A ∩ B| / (|A| + |B|), of a mask and its prediction, as a Keras loss and metric.

Both take masks of 0 and 1 and probabilities of the same shape (batch, ...) and return float32 of shape (batch,).
Source: Milletari, Navab and Ahmadi, "V-Net" (2016); theirs squares the sums of the denominator.
"""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

_SMOOTH = 1.0  # voxels; makes the coefficient 1 if both masks are empty


@keras.utils.register_keras_serializable("estimator_train")
def dice_loss(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Returns 1 minus the coefficient, computed from the probabilities without a threshold.

    >>> mask = tf.constant([[[1.0, 0.0]]])
    >>> dice_loss(mask, mask).numpy().tolist()
    [0.0]
    """
    return 1 - _dice(y_true, y_pred)


@keras.utils.register_keras_serializable("estimator_train")
def bce_dice_loss(y_true: tf.Tensor, y_pred: tf.Tensor, *, positive_weight: float = 4.0) -> tf.Tensor:
    """Returns `dice_loss` plus the mean binary cross-entropy, which weights the mask's pixels by `positive_weight`.

    Cross-entropy gives every pixel a gradient from the first step, and the weight compensates for small masks.

        >>> bce_dice_loss(tf.ones([2, 8, 8]), tf.fill([2, 8, 8], 0.9)).shape.as_list()
        [2]
    """
    y_true, y_pred = tf.cast(y_true, tf.float32), tf.cast(y_pred, tf.float32)
    weights = 1 + (positive_weight - 1) * y_true
    entropy = weights * keras.backend.binary_crossentropy(y_true, y_pred)
    return dice_loss(y_true, y_pred) + tf.reduce_mean(entropy, axis=tf.range(1, tf.rank(entropy)))


@keras.utils.register_keras_serializable("estimator_train")
def dice_coefficient(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Returns the coefficient of the mask and the probabilities thresholded at 0.5.

    >>> dice_coefficient(tf.constant([[[1.0, 0.0]]]), tf.constant([[[0.9, 0.2]]])).numpy().tolist()
    [1.0]
    """
    return _dice(y_true, y_pred > 0.5)


def _dice(a, b):
    a, b = (tf.reshape(tf.cast(mask, tf.float32), [tf.shape(mask)[0], -1]) for mask in (a, b))
    overlap = tf.reduce_sum(a * b, axis=1)
    return (2 * overlap + _SMOOTH) / (tf.reduce_sum(a, axis=1) + tf.reduce_sum(b, axis=1) + _SMOOTH)
