"""Restores checkpoints of Keras models that tf.estimator of TensorFlow 2.15 and earlier wrote."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.checkpoints import VALUE, CheckpointReader, read_global_step, reader_of, variable_name

log = tf.get_logger()

# There are two formats: "checkpoint", which is object-based, and "saver", which is name-based. Both contain a legacy
# Keras optimizer, whose number of updates is not stored separately, because it was the global step.
_UPDATES = {"optimizer/iter" + VALUE, "optimizer/_iterations" + VALUE}

# The slots that have another name in the new optimizers than in the legacy ones, by optimizer.
_NEW_SLOT_NAMES = {"SGD": {"momentum": "m"}, "RMSprop": {"rms": "velocity", "mg": "average_gradient"}}


def is_tf215(path: str) -> bool:
    """Returns whether tf.estimator wrote the checkpoint at prefix `path`."""
    names = reader_of(path).get_variable_to_shape_map().keys()
    has_optimizer = "optimizer/learning_rate" + VALUE in names
    return "global_step" in names or (has_optimizer and _UPDATES.isdisjoint(names))


def restore(path: str, weights: dict[str, tf.Variable], global_step: tf.Variable, optimizer: Any = None) -> list[str]:
    """Restores variables from the checkpoint at prefix `path`, provided that it has all of them.

    `weights` are by their keys in object-based checkpoints. `optimizer` is the model's, built, if it will continue to
    train. Returns a line for each weight that is missing or has another shape.
    """
    reader = reader_of(path)
    names = saved_names(reader, weights)
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
    global_step.assign(read_global_step(path))
    if isinstance(optimizer, (keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)):
        optimizer.iterations.assign(tf.cast(global_step, optimizer.iterations.dtype))
        for name, (key, slot_name) in _slots(shapes, names).items():
            slot = _slot(optimizer, weights[key], slot_name)
            if slot is None:
                log.warning("%s in checkpoint %s has no counterpart in the optimizer %s.", name, path, optimizer)
            else:
                slot.assign(reader.get_tensor(name))
    return []


def saved_names(reader: CheckpointReader, weights: dict[str, tf.Variable]) -> dict[str, str]:
    """Returns a dict of the keys of `weights` to the names that a checkpoint of tf.estimator has for them."""
    if reader.has_tensor("global_step"):  # it is name-based
        return {key: variable_name(weight) for key, weight in weights.items()}
    return {key: key + VALUE for key in weights}


def _slots(saved: Iterable[str], names: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Returns the optimizer's slots among the names `saved`, a dict to (key of the weight, name of the slot)."""
    slots = {}
    for key, name in names.items():
        for candidate in saved:
            if candidate.startswith(f"{key}/.OPTIMIZER_SLOT/optimizer/"):
                slots[candidate] = key, candidate.removesuffix(VALUE).rpartition("/")[2]
            elif candidate.startswith("training/") and f"/{name}/" in candidate:
                slots[candidate] = key, candidate.rpartition("/")[2]
    return slots


def _slot(optimizer: Any, weight: tf.Variable, name: str) -> tf.Variable | None:
    if isinstance(optimizer, keras.optimizers.legacy.Optimizer):
        return optimizer.get_slot(weight, name) if name in optimizer.get_slot_names() else None
    name = _NEW_SLOT_NAMES.get(type(optimizer).__name__, {}).get(name, name)
    return next(
        (slot for slot in optimizer.variables if variable_name(slot) == f"{name}/{variable_name(weight)}"), None
    )
