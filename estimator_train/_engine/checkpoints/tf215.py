"""Restores checkpoints of Keras models that tf.estimator of TensorFlow 2.15 and earlier wrote.

There are two formats: "checkpoint", which is object-based, and "saver", which is name-based. Both contain a legacy
Keras optimizer, whose number of updates is not stored separately, because it was the global step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.checkpoints import reader_of

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_UPDATES = {"optimizer/iter" + _VALUE, "optimizer/_iterations" + _VALUE}

# The slots that have another name in the new optimizers than in the legacy ones, by optimizer.
_NEW_SLOT_NAMES = {"SGD": {"momentum": "m"}, "RMSprop": {"rms": "velocity", "mg": "average_gradient"}}


def is_tf215(path: str) -> bool:
    """Returns whether tf.estimator wrote the checkpoint at prefix `path`."""
    names = reader_of(path).get_variable_to_shape_map().keys()
    has_optimizer = "optimizer/learning_rate" + _VALUE in names
    return "global_step" in names or (has_optimizer and _UPDATES.isdisjoint(names))


def restore(path: str, weights: dict[str, tf.Variable], global_step: tf.Variable, optimizer: Any = None) -> list[str]:
    """Restores variables from the checkpoint at prefix `path`, provided that it has all of them.

    Args:
      path: path prefix of the checkpoint.
      weights: dict from the weights' keys in object-based checkpoints to the variables.
      global_step: the global step variable.
      optimizer: the model's optimizer, built, if it will continue to train; None otherwise.

    Returns:
      A list with one line for each weight that is missing or has another shape; empty if all were restored.
    """
    reader = reader_of(path)
    is_name_based = reader.has_tensor("global_step")
    names = {key: variable_name(weight) if is_name_based else key + _VALUE for key, weight in weights.items()}
    shapes = reader.get_variable_to_shape_map()
    differences = [
        f"{names[key]} is {shapes.get(names[key], 'not there')} in the checkpoint and {weight.shape} in the model"
        for key, weight in sorted(weights.items())
        if shapes.get(names[key]) != weight.shape
    ]
    if differences:
        return differences
    for key, weight in weights.items():
        weight.assign(reader.get_tensor(names[key]))
    global_step.assign(reader.get_tensor("global_step" if is_name_based else "estimator_global_step" + _VALUE))
    if isinstance(optimizer, (keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)):
        optimizer.iterations.assign(tf.cast(global_step, optimizer.iterations.dtype))
        for name, (key, slot_name) in _slots(shapes, names).items():
            slot = _slot(optimizer, weights[key], slot_name)
            if slot is None:
                tf.get_logger().warning(
                    "%s in checkpoint %s has no counterpart in the optimizer %s.", name, path, optimizer
                )
            else:
                slot.assign(reader.get_tensor(name))
    return []


def _slots(saved: Iterable[str], names: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Returns the optimizer's slots among the names `saved`, a dict to (key of the weight, name of the slot)."""
    slots = {}
    for key, name in names.items():
        for candidate in saved:
            if candidate.startswith(f"{key}/.OPTIMIZER_SLOT/optimizer/"):
                slots[candidate] = key, candidate.removesuffix(_VALUE).rpartition("/")[2]
            elif candidate.startswith("training/") and f"/{name}/" in candidate:
                slots[candidate] = key, candidate.rpartition("/")[2]
    return slots


def _slot(optimizer: Any, weight: tf.Variable, name: str) -> tf.Variable | None:
    """Returns the variable of `optimizer` for the slot `name` of `weight`, or None."""
    if isinstance(optimizer, keras.optimizers.legacy.Optimizer):
        return optimizer.get_slot(weight, name) if name in optimizer.get_slot_names() else None
    name = _NEW_SLOT_NAMES.get(type(optimizer).__name__, {}).get(name, name)
    return next(
        (slot for slot in optimizer.variables if variable_name(slot) == f"{name}/{variable_name(weight)}"), None
    )


def variable_name(variable: tf.Variable) -> str:
    return variable.name.removesuffix(":0")
