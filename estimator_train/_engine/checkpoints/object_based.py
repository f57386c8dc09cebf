"""Saves and restores object-based checkpoints of Keras models.

The root of a checkpoint is the model (for Keras 3, a tree of its variables), with its optimizer and the global step
attached. `tf.train.Checkpoint(model).read(path)` and `keras_model.load_weights(path)` can therefore read it, too.
"""

import contextlib
import logging
import os
import uuid
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.checkpoints import VALUE, CheckpointError, damage_of, other_model, reader_of, slots, tf215
from estimator_train._engine.checkpoints.private_keras import build_legacy_optimizer, without_optional_parts
from estimator_train._engine.checkpoints.private_tensorflow import forget_values_to_come
from estimator_train._engine.cluster import synchronous
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session.private_tensorflow import eager_mode

log = tf.get_logger()

# Only functional models have layers under these keys, and the layers of a functional model are all known.
_FUNCTIONAL = ("layer_with_weights-", "_operations/", "_functional/_operations/")


class SavedParts(NamedTuple):
    """The parts of a Keras model that are stored in checkpoints."""

    root: Any  # the trackable object to save, with the optimizer as its attribute `optimizer`
    weights: list[tf.Variable]  # the model's variables created so far, without those of the optimizer
    trained: list[tf.Variable]  # those of them that the model trains, in its order
    optimizer: Any  # a tf_keras model's optimizer; None for Keras 3, whose optimizer is in the root


class ObjectSaver:
    """Saves a `tf.train.Checkpoint`; replaces the `tf.compat.v1.train.Saver` of Scaffold and CheckpointSaverHook."""

    saver_def = None  # CheckpointSaverHook reads it; there is no graph to restore from

    def __init__(self, checkpoint: tf.train.Checkpoint, config: RunConfig) -> None:
        self._checkpoint = checkpoint
        self._config = config
        is_synchronous = synchronous.spans_workers(config.train_distribute)
        self._options = tf.train.CheckpointOptions(enable_async=config.async_checkpoints and not is_synchronous)
        self._managers = {}

    def build(self) -> None:
        """Called by Scaffold.finalize(); an object-based checkpoint needs no ops."""

    def save(self, session: Any, save_path: str, global_step: Any, **_: Any) -> str:
        """Writes `<save_path>-<global_step>` and the `checkpoint` file; deletes checkpoints beyond keep_max."""
        lost = synchronous.explaining_lost_worker(self._config.train_distribute)
        with eager_mode(), lost, root_logger_left_alone():
            if save_path not in self._managers:
                self._managers[save_path] = tf.train.CheckpointManager(
                    self._checkpoint,
                    os.path.dirname(save_path),
                    max_to_keep=self._config.keep_checkpoint_max or None,
                    keep_checkpoint_every_n_hours=self._config.keep_checkpoint_every_n_hours,
                    checkpoint_name=os.path.basename(save_path),
                )
            return self._managers[save_path].save(checkpoint_number=int(global_step), options=self._options)

    def write(self, path: str) -> None:
        """Writes a checkpoint at prefix `path` without adding it to the `checkpoint` file."""
        with eager_mode(), root_logger_left_alone():
            self._checkpoint.write(path)

    def sync(self) -> None:
        """Waits until asynchronous checkpoints are on disk."""
        with eager_mode():
            for manager in self._managers.values():
                manager.sync()


def wait_for(saver: Any) -> None:
    """Waits until the checkpoints of an `ObjectSaver` are on disk; other savers are synchronous."""
    if isinstance(saver, ObjectSaver):
        saver.sync()


@contextlib.contextmanager
def root_logger_left_alone() -> Iterator[None]:
    """Keeps absl from adding a handler to the root logger in a save: TensorFlow's lines would be printed twice."""
    nothing = logging.NullHandler()
    logging.root.addHandler(nothing)
    try:
        yield
    finally:
        logging.root.removeHandler(nothing)


def restore(parts: SavedParts, attached: dict[str, Any], path: str, trains: bool = False) -> None:
    """Restores the `SavedParts` of a model from the checkpoint at prefix `path`.

    Variables of a tf_keras model that do not exist yet get their values when they are created, except for those of the
    optimizer, which keep their initial values. `attached` are variables, or dicts of them, by their attribute of the
    `tf.train.Checkpoint`. Raises CheckpointError if the checkpoint is missing, damaged, or belongs to another model.
    """
    _check_intact(path)
    if tf215.is_tf215(path):
        _restore_of_215(attached["estimator_global_step"], parts, path, trains)
        return
    ours, saved = _slots(parts), slots.saved(path)
    # After another choice of frozen layers, or of a schedule for a constant rate, they are at other places of the list.
    are_by_name = bool(ours) and list(ours.items()) != list(saved.items())
    root = slots.scaling_as_saved(parts.root, path)
    if are_by_name or (ours and not trains):
        root = slots.without_slots(root)
    _read(root, attached, parts, path)
    if are_by_name and trains:
        _restore_slots(parts, ours, saved, path)
    if saved and not ours:
        forget_slots_to_come(parts)  # they would be assigned by position


def needs_variables(path: str) -> bool:
    """Returns whether the checkpoint at prefix `path` is one of tf.estimator's, which `restore` needs variables for."""
    return damage_of(path) is None and tf215.is_tf215(path)


def forget_slots_to_come(parts: SavedParts) -> None:
    """Drops the values that an earlier restore holds for variables that a tf_keras optimizer has not created yet."""
    if parts.optimizer is not None:
        forget_values_to_come(parts.optimizer)


def _check_intact(path: str) -> None:
    damage = damage_of(path)
    if damage is not None:
        raise CheckpointError(f"Checkpoint {path} cannot be read: {damage}")


def _restore_slots(parts: SavedParts, ours: slots.Slots, saved: slots.Slots, path: str) -> None:
    """Restores the slots `ours`, such as Adam's moments, by the names of their weights, or by their order, if equal.

    A weight without slots in the checkpoint, because it was frozen, keeps the initial ones. So do all weights if the
    optimizer is another one, except for their moving averages. Raises CheckpointError if the names of the slots do not
    identify the weights.
    """
    if saved and list(ours) != list(saved) and not (slots.is_identified(saved) and slots.is_identified(ours)):
        raise CheckpointError(
            f"Checkpoint {path} has {len(saved)} variables of the optimizer, whose names do not tell the weights that "
            f"they belong to, and the model has {len(ours)}; use the same optimizer and freeze the same layers, or "
            "give each variable a name of its own."
        )
    here, there = ({slot for _, slot in each} - {slots.AVERAGE} for each in (ours, saved))
    is_other = bool(here and there) and here != there
    if is_other:
        log.warning(
            "Checkpoint %s is of another optimizer, whose slots are %s; the slots %s start without state.",
            *(path, ", ".join(sorted(there)), ", ".join(sorted(here))),
        )
    reader, variables, weights = reader_of(path), _parts_of_optimizer(parts), _weights_by_key(parts)
    for (key, slot), place in ours.items():
        if (key, slot) in saved and not (is_other and slot in here):
            variables[place].assign(reader.get_tensor(saved[key, slot] + VALUE))
        elif slot == slots.AVERAGE:
            variables[place].assign(weights[key])
    if saved and not is_other:
        count = len({key for key, _ in ours} - {key for key, _ in saved})
        log.info(
            "The optimizer starts without state for %d variables that checkpoint %s has no state for.", count, path
        )


def keeps_averages(optimizer: Any) -> bool:
    """Returns whether a Keras optimizer keeps moving averages of the weights."""
    return getattr(getattr(optimizer, "inner_optimizer", optimizer), "use_ema", False)  # of a LossScaleOptimizer


def take_averages(parts: SavedParts, path: str) -> None:
    """Replaces the weights by the moving averages that a checkpoint has; CheckpointError if it does not tell whose."""
    if not tf215.is_tf215(path):
        reader, weights = reader_of(path), _weights_by_key(parts)
        for key, average in slots.averages(path, list(_trained_by_key(parts))).items():
            if key in weights:
                weights[key].assign(reader.get_tensor(average + VALUE))


def restart_averages(parts: SavedParts) -> None:
    """Sets the moving averages to the weights, where names tell which weights they belong to."""
    variables, weights = _parts_of_optimizer(parts), _weights_by_key(parts)
    for (key, slot), place in _slots(parts).items():
        if slot == slots.AVERAGE:
            variables[place].assign(weights[key])


def has_slots_of_others(parts: SavedParts, path: str) -> bool:
    """Returns whether the optimizer's slots are not those that the checkpoint at prefix `path` has."""
    ours = _slots(parts)
    is_readable = bool(ours) and damage_of(path) is None and not tf215.is_tf215(path)
    return is_readable and list(ours) != list(slots.saved(path))


def _slots(parts: SavedParts) -> slots.Slots:
    return slots.existing(_parts_of_optimizer(parts), _weights_by_key(parts))


def _parts_of_optimizer(parts: SavedParts) -> dict[str, Any]:
    optimizer = getattr(parts.root, "optimizer", None)
    if optimizer is None:
        return {}
    return {f"optimizer/{key}": part for key, part in parts_by_key(optimizer).items()}


class StateInMemory:
    """The state that a `tf.train.Checkpoint` of a Keras model saves, kept in this process' memory."""

    def __init__(self, parts: SavedParts) -> None:
        directory = f"ram://estimator_train-{uuid.uuid4()}"  # TensorFlow's in-memory file system, since version 2.4
        self._path = f"{directory}/state"
        with root_logger_left_alone():
            tf.train.Checkpoint(root=parts.root).write(self._path)
        weakref.finalize(self, tf.io.gfile.rmtree, directory).atexit = False  # the memory ends with the process

    def restore_to(self, parts: SavedParts) -> None:
        """Restores the state to the parts of another model, like `restore`."""
        _read(parts.root, {}, parts, self._path)


def _read(root: Any, attached: dict[str, Any], parts: SavedParts, path: str) -> None:
    """Reads the checkpoint at prefix `path` into `root`, the root of `parts` or a part of it, and into `attached`."""
    forget_values_to_come(parts.root)
    optimizer = getattr(root, "optimizer", None)
    may_lack = contextlib.nullcontext() if optimizer is None else without_optional_parts(optimizer)
    checkpoint = tf.train.Checkpoint(root=root, **attached)
    try:
        status = checkpoint.read(path)
        with may_lack:
            status.assert_existing_objects_matched().expect_partial()
    except (AssertionError, ValueError, tf.errors.InvalidArgumentError) as error:
        _check_same_model(parts, path)
        raise CheckpointError(f"Checkpoint {path} is of another model: {str(error).splitlines()[0]}") from error
    _check_same_model(parts, path)


def _restore_of_215(global_step: tf.Variable, parts: SavedParts, path: str, trains: bool) -> None:
    if not parts.weights:
        raise CheckpointError(
            f"Checkpoint {path} was written by tf.estimator, and the model has no variables to restore yet; build the "
            "model, with an Input layer, input_shape or model.build(), before calling model_to_estimator."
        )
    optimizer = parts.optimizer if trains else None
    if isinstance(optimizer, keras.optimizers.legacy.Optimizer):
        build_legacy_optimizer(optimizer, parts.root.trainable_variables)
    elif isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer.build(parts.root.trainable_variables)
    differences = tf215.restore(path, _weights_by_key(parts), global_step, optimizer)
    if differences:
        raise other_model(path, differences)


def take_weights(parts: SavedParts, path: str) -> list[str]:
    """Loads those weights of a model that the checkpoint at prefix `path` has with the same key and shape.

    If the optimizer kept moving averages, the model gets these, with which the checkpoint is evaluated. Returns a line
    for each weight that was not loaded. Raises CheckpointError if the checkpoint is damaged, or has none of them.
    """
    _check_intact(path)
    reader, weights = reader_of(path), _weights_by_key(parts)
    if tf215.is_tf215(path):
        names = tf215.saved_names(reader, weights)
    else:
        averages = slots.averages(path, list(_trained_by_key(parts)))
        names = {key: averages.get(key, key) + VALUE for key in weights}
    saved, differences = reader.get_variable_to_shape_map(), []
    for key, weight in sorted(weights.items()):
        if names[key] not in saved:
            differences.append(f"{key} {tuple(weight.shape)} is not in the checkpoint")
        elif not weight.shape.is_compatible_with(saved[names[key]]):
            differences.append(f"{key} is {tuple(saved[names[key]])} in the checkpoint and {tuple(weight.shape)} here")
        else:
            weight.assign(reader.get_tensor(names[key]))
    if len(differences) == len(weights):
        raise other_model(path, differences or ["the model has no variables before it is first called"])
    return differences


def attached_values(path: str, names: list[str]) -> dict[str, Any]:
    """Returns those values that are attached to the checkpoint at prefix `path` as one of `names`."""
    _check_intact(path)
    reader = reader_of(path)
    return {name: reader.get_tensor(name + VALUE) for name in names if reader.has_tensor(name + VALUE)}


def among_saved(path: str, attributes: dict[str, dict[str, tf.Variable]]) -> dict[str, dict[str, tf.Variable]]:
    """Returns those variables of `attributes`, see `restore`, that the checkpoint at prefix `path` has."""
    reader, there = reader_of(path), {}
    for name, variables in attributes.items():
        saved = {key: variable for key, variable in variables.items() if reader.has_tensor(f"{name}/{key}{VALUE}")}
        if saved:
            there[name] = saved
    return there


def _check_same_model(parts: SavedParts, path: str) -> None:
    entries = reader_of(path).get_variable_to_shape_map()
    saved = {key.removesuffix(VALUE): tuple(shape) for key, shape in entries.items() if key.endswith(VALUE)}
    expected = {key: tuple(weight.shape) for key, weight in _weights_by_key(parts).items()}
    reshaped = [
        f"{key} is {saved[key]} in the checkpoint and {expected[key]} in the model"
        for key in sorted(saved.keys() & expected.keys())
        if not tf.TensorShape(expected[key]).is_compatible_with(saved[key])
    ]
    missing = [f"{key} {expected[key]} is not in the checkpoint" for key in sorted(expected.keys() - saved.keys())]
    extra = [
        f"{key} {saved[key]} is not in the model"
        for key in sorted(saved.keys() - expected.keys())
        if expected and key.startswith(_FUNCTIONAL) and "/.OPTIMIZER_SLOT/" not in key
    ]
    if differences := reshaped + missing + extra:
        raise other_model(path, differences)


def _weights_by_key(parts: SavedParts) -> dict[str, tf.Variable]:
    weights = set(map(id, parts.weights))
    return {key: part for key, part in parts_by_key(parts.root).items() if id(part) in weights}


def _trained_by_key(parts: SavedParts) -> dict[str, tf.Variable]:
    keys = {id(weight): key for key, weight in _weights_by_key(parts).items()}
    return {keys[id(variable)]: variable for variable in parts.trained if id(variable) in keys}


def variables_by_key(root: Any) -> dict[str, tf.Variable] | None:
    """Returns the variables below `root` by their keys in a checkpoint, except those of the optimizer and metrics.

    Returns None if there is other state, such as a lookup table, or a layer that has not created its variables yet.
    """
    parts = parts_by_key(root)
    tables = (tf.lookup.experimental.MutableHashTable, tf.lookup.experimental.DenseHashTable)
    if any(isinstance(part, tables) or not getattr(part, "built", True) for part in parts.values()):
        return None
    metric_ids = {
        id(variable) for part in parts.values() if isinstance(part, keras.metrics.Metric) for variable in part.variables
    }
    return {key: part for key, part in parts.items() if hasattr(part, "read_value") and id(part) not in metric_ids}


def parts_by_key(root: Any) -> dict[str, Any]:
    """Returns the trackable objects below `root`, except its optimizer, by their shortest paths, as checkpoints do."""
    parts, queue, seen = {}, [("", root)], {id(root)}
    for prefix, node in queue:
        for name, child in tf.train.TrackableView.children(node).items():
            if id(child) in seen or (node is root and name == "optimizer"):
                continue
            seen.add(id(child))
            name = name.replace(".", "..").replace("/", ".S")  # TensorFlow's escaping, as keys are paths
            queue.append((f"{prefix}{name}/", child))
            parts[prefix + name] = child
    return parts
