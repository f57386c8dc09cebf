"""Substitutes CPU replicas for GPUs that a script asks for but the machine does not have."""

import functools
import inspect
import re
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_train._engine.distribution.strategies import logical_cpus


def replace_by_cpus(count: int) -> None:
    """Makes MirroredStrategy and OneDeviceStrategy use logical CPUs when they are created over missing GPUs.

    A MirroredStrategy then uses all `count` logical CPUs, however many GPUs it was asked for. Without a list of
    devices, it does so if the machine has no GPU. Raises RuntimeError; see `cpu_replicas`.
    """
    cpus = logical_cpus(count)
    for version in (tf, tf.compat.v1):
        _replace(version.distribute.MirroredStrategy, "devices", cpus)
        _replace(version.distribute.OneDeviceStrategy, "device", cpus[0])


def are_absent(devices: Iterable[str]) -> bool:
    """Returns whether any of these device names refers to a GPU that is not visible to TensorFlow."""
    there = len(tf.config.get_visible_devices("GPU"))
    indices = [re.search(r"gpu:(\d+)$", device, re.IGNORECASE) for device in devices]
    return any(index and int(index[1]) >= there for index in indices)


def _replace(strategy_class: type[tf.distribute.Strategy], argument: str, cpus: list[str] | str) -> None:
    construct = strategy_class.__init__
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def construct_on_what_is_there(self: tf.distribute.Strategy, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        devices = bound.arguments.get(argument)
        if devices is None:
            devices = "GPU:0"
        if are_absent(tf.nest.flatten(devices)):
            bound.arguments[argument] = cpus
        construct(*bound.args, **bound.kwargs)

    strategy_class.__init__ = construct_on_what_is_there
