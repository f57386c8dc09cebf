"""Chooses the devices that this process sees, and knows its GPUs."""

import tensorflow as tf

from estimator_train._engine.application import replace_by_cpus, show_gpus
from estimator_train.app.errors import SettingError, one_line_errors


def choose(gpus, replicas=None):
    """Shows this process only the first `gpus` GPUs, or lets `replicas` CPU replicas stand in for missing GPUs."""
    if gpus and replicas:
        raise SettingError("{gpus} and {replicas} exclude each other; give one")
    with one_line_errors():
        if gpus:
            show_gpus(gpus)
        else:
            replace_by_cpus(replicas)


def visible_gpus(training):
    """Returns the compute capability, None if it is unknown, of each GPU that a training could have."""
    if training.replicas:
        return []  # it trains on replicas of the CPU
    gpus = tf.config.get_visible_devices("GPU")
    return [tf.config.experimental.get_device_details(gpu).get("compute_capability") for gpu in gpus]
