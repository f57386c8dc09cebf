"""Private names of TensorFlow that this package uses, each behind a function."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_train._engine.libraries import private_names_of


@private_names_of("tensorflow")
def leave_out_of_checkpoints(trackable: Any, left_out: Iterable[tf.Variable]) -> None:
    """Excludes the values of the variables in `left_out` from checkpoints of `trackable`."""
    children, ids = trackable._trackable_children, {id(variable) for variable in left_out}
    without_value = tf.Module()

    def others(*args: Any, **kwargs: Any) -> dict[str, Any]:
        found = children(*args, **kwargs)
        return {name: without_value if id(child) in ids else child for name, child in found.items()}

    trackable._trackable_children = others


@private_names_of("tensorflow")
def forget_values_to_come(model: Any) -> None:
    """Drops the values that earlier restores hold for variables that `model` has not created yet."""
    # With each of them, TensorFlow would keep all that it knows of the old checkpoint.
    for part in tf.train.TrackableView(model).descendants():
        part._deferred_dependencies.clear()


@private_names_of("tensorflow")
def listeners(hook: tf.compat.v1.train.CheckpointSaverHook) -> list[Any]:
    """Returns a list of the listeners of a CheckpointSaverHook, which has no public attribute for them."""
    return list(hook._listeners)


@private_names_of("tensorflow")
def set_listeners(hook: tf.compat.v1.train.CheckpointSaverHook, listeners: Iterable[Any]) -> None:
    """Replaces the listeners of a CheckpointSaverHook, which accepts them only in its constructor."""
    hook._listeners = list(listeners)
