"""Tells whether NCCL can sum over the GPUs of this process."""

from __future__ import annotations

import tensorflow as tf


def sums_over_gpus() -> bool:
    """Returns whether TensorFlow sees GPUs, none of them divided into several logical devices, which NCCL refuses."""
    gpus = tf.config.get_visible_devices("GPU")
    return bool(gpus) and all(len(tf.config.get_logical_device_configuration(gpu) or ()) < 2 for gpu in gpus)
