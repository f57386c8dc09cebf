"""Private names of TensorFlow that replicas need, each behind a function."""

from __future__ import annotations

import tensorflow as tf

_KEYS: dict[tuple[str, ...], int] = {}  # by devices


def own_collectives(strategy: tf.distribute.MirroredStrategy) -> None:
    """Gives the CPU replicas of a strategy collective ops of their own; strategies over the same devices share them.

    All MirroredStrategies use the same group key, and TensorFlow fails if a second one in the process has another
    number of devices. A strategy with other devices or with `cross_device_ops` is left as it is.
    """
    extended = strategy.extended
    devices = extended._devices
    is_on_cpus = all("CPU" in device for device in devices)
    if not is_on_cpus or len(devices) == 1 or extended._cross_device_ops is not extended._collective_ops:
        return
    key = _KEYS.setdefault(devices, 1000 * (1 + len(_KEYS)))  # a strategy counts up from its key
    if extended._collective_key_base != key:
        extended._collective_key_base = key
        extended._collective_ops = extended._cross_device_ops = extended._make_collective_ops_with_fallbacks()
