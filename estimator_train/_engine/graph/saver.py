"""Saves a model_fn's variables by name, and restores them, also from 2.15's checkpoints of shared embeddings."""

import contextlib
from collections.abc import Callable, Container, Iterator
from typing import Any

import tensorflow as tf

from estimator_train._engine.checkpoints import other_model, reader_of, variable_name

v1 = tf.compat.v1
log = tf.get_logger()

# The canned estimators of TensorFlow 2.15 create a shared embedding outside the model's scope and do not train it:
# their checkpoints have it without the scope in its name, and without slots.
_OLD_NAMES = ("estimator_train", "names in 2.15")  # a collection; MetaGraphs hold only those named by a str


@contextlib.contextmanager
def without_scope_in_tf215() -> Iterator[None]:
    """Notes that 2.15 saves the variables that the block creates without the current variable scope in their names."""
    scope = f"{v1.get_variable_scope().name}/"

    def creator(next_creator: Callable[..., tf.Variable], **settings: Any) -> tf.Variable:
        variable = next_creator(**settings)
        v1.add_to_collection(_OLD_NAMES, (variable_name(variable), variable_name(variable).removeprefix(scope)))
        return variable

    with v1.variable_creator_scope(creator):
        yield


def old_names(saved: Container[str]) -> dict[str, str]:
    """Returns a dict of variable names to 2.15's, for those of which a checkpoint with the names `saved` has 2.15's."""
    noted = dict(v1.get_collection(_OLD_NAMES))
    return {name: old for name, old in noted.items() if name not in saved and old in saved}


def check_same_shapes(path: str) -> None:
    """Raises CheckpointError if variables have other shapes in a name-based checkpoint; TensorFlow raises none."""
    saved = {name: tuple(shape) for name, shape in reader_of(path).get_variable_to_shape_map().items()}
    names, differences = old_names(saved), []
    for variable in v1.global_variables():
        own = variable_name(variable)
        name = names.get(own, own)
        if name in saved and not variable.shape.is_compatible_with(saved[name]):
            here = tuple(variable.shape.as_list())
            differences.append(f"{name} is {saved[name]} in the checkpoint and {here} in the model")
    if differences:
        raise other_model(path, differences)


class Saver(tf.compat.v1.train.Saver):
    """Saves the default graph's variables, and restores them, from the checkpoint at `path` also by 2.15's names."""

    def __init__(self, path: str | None, **options: Any) -> None:
        super().__init__(sharded=True, **options)
        self._path, self._others = path, None
        if path is None:
            return
        saved = reader_of(path).get_variable_to_shape_map()
        names = old_names(saved)
        if not names:
            return
        log.info("Checkpoint %s has no slots of %s, so training starts with new ones.", path, ", ".join(names.values()))
        variables = {variable_name(variable): variable for variable in v1.global_variables()}
        slots = {
            name for name in variables.keys() - names.keys() - saved.keys() if any(f"{each}/" in name for each in names)
        }
        restored = [_assign_saved(variables[name], path, old) for name, old in names.items()]
        self._renamed_and_new = tf.group(*restored, *(variables[name].initializer for name in slots))
        others = [variable for name, variable in variables.items() if name not in slots and name not in names]
        self._others = v1.train.Saver([*others, *v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)])

    def restore(self, sess: tf.compat.v1.Session, save_path: str) -> None:
        if self._others is None or save_path != self._path:
            super().restore(sess, save_path)
        else:
            self._others.restore(sess, save_path)
            sess.run(self._renamed_and_new)


def _assign_saved(variable: tf.Variable, path: str, name: str) -> tf.Operation:
    """Returns an op that restores a variable under another name, which a Saver cannot do with mirrored ones."""
    (value,) = tf.raw_ops.RestoreV2(prefix=path, tensor_names=[name], shape_and_slices=[""], dtypes=[variable.dtype])
    return variable.assign(tf.ensure_shape(value, variable.shape))
