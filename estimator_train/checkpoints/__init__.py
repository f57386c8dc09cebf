"""Saving, finding, verifying and restoring checkpoints.

Checkpoints of Keras models are object-based: the model is the root, its optimizer and the global step hang on it. So
`tf.train.Checkpoint(model).read(path)` and `keras_model.load_weights(path)` read them too.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re

import tensorflow as tf
import tf_keras as keras

from estimator_train import checkpoints_of_215, multi_worker
from estimator_train.function_session import eager_mode

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
# Of Keras models, name-based, and of a tf.train.Checkpoint that a model_fn saves with.
_STEP_KEYS = ("estimator_global_step" + _VALUE, "global_step", "global_step" + _VALUE)


class CheckpointError(ValueError):
    """A checkpoint that is damaged, of another model, or not there."""


class ObjectSaver:
    """Saves a `tf.train.Checkpoint` where Scaffold and CheckpointSaverHook expect a `tf.compat.v1.train.Saver`."""

    saver_def = None  # read by CheckpointSaverHook: there is no graph to restore from

    def __init__(self, checkpoint, config):
        self._checkpoint = checkpoint
        self._config = config
        in_step = multi_worker.is_one(config.train_distribute)
        self._options = tf.train.CheckpointOptions(enable_async=config.async_checkpoints and not in_step)
        self._managers = {}

    def build(self):
        """Called by Scaffold.finalize(); an object-based checkpoint needs no ops."""

    def save(self, session, save_path, global_step, **_):
        """Writes `<save_path>-<global_step>` and the folder's `checkpoint` file; deletes what is beyond keep_max."""
        with eager_mode(), multi_worker.naming_lost_workers(self._config.train_distribute), root_logger_left_alone():
            if save_path not in self._managers:
                self._managers[save_path] = tf.train.CheckpointManager(
                    self._checkpoint,
                    os.path.dirname(save_path),
                    max_to_keep=self._config.keep_checkpoint_max or None,
                    keep_checkpoint_every_n_hours=self._config.keep_checkpoint_every_n_hours,
                    checkpoint_name=os.path.basename(save_path),
                )
            return self._managers[save_path].save(checkpoint_number=int(global_step), options=self._options)

    def sync(self):
        """Waits until what is saved is written."""
        with eager_mode():
            for manager in self._managers.values():
                manager.sync()


def wait_for(saver):
    """Returns when what an `ObjectSaver` writes meanwhile is on disk; other savers write before they return."""
    if isinstance(saver, ObjectSaver):
        saver.sync()


@contextlib.contextmanager
def root_logger_left_alone():
    """Around what saves: TensorFlow then logs through absl, which gives a root logger without handlers one.

    Every line of TensorFlow's own logger, which has one, would be printed twice from there on.
    """
    nothing = logging.NullHandler()
    logging.root.addHandler(nothing)
    try:
        yield
    finally:
        logging.root.removeHandler(nothing)


def latest_intact(model_dir):
    """Path prefix of the newest checkpoint in `model_dir` whose every byte is there, or None when there are none.

    Each damaged one that is passed over is logged as a warning. Raises CheckpointError when all are damaged.
    """
    state = tf.train.get_checkpoint_state(model_dir)
    paths = list(state.all_model_checkpoint_paths) if state else []
    if state and state.model_checkpoint_path:  # which a user may have set to an older one
        newest = state.model_checkpoint_path
        paths = [*paths[: paths.index(newest)], newest] if newest in paths else [newest]
    for path in reversed(paths):
        damage = damage_of(path)
        if damage is None:
            return path
        tf.get_logger().warning("Checkpoint %s is damaged and is passed over for the one before it: %s", path, damage)
    if paths and tf.train.get_checkpoint_state(model_dir) != state:
        return latest_intact(model_dir)  # a training has meanwhile saved others and deleted these
    if paths:
        raise CheckpointError(
            f"Every checkpoint in {model_dir} is damaged, the newest is {paths[-1]}; "
            "bring back a copy, or use another model_dir to start anew."
        )
    return None


def damage_of(path):
    """What keeps the checkpoint at prefix `path` from being read whole, one line, or None. Reads it once a change."""
    return _damage_of(path, stamp(path))


def stamp(path):
    """A value that changes when the checkpoint at prefix `path` is written again."""
    folder, prefix = os.path.split(f"{path}.")
    names = tf.io.gfile.listdir(folder or ".") if tf.io.gfile.isdir(folder or ".") else []  # glob starts threads
    files = [os.path.join(folder, name) for name in sorted(names) if name.startswith(prefix)]
    return tuple((file, *_length_and_time(file)) for file in files)


@functools.lru_cache(maxsize=64)
def _damage_of(path, stamp):
    del stamp  # only a cache key
    try:
        reader = tf.train.load_checkpoint(path)
        for key, dtype in reader.get_variable_to_dtype_map().items():
            if dtype not in (tf.variant, tf.resource):  # an iterator's state: only its own op can read it
                _read(reader, key)
    except (tf.errors.OpError, IndexError, ValueError, RuntimeError) as error:  # TensorFlow raises any of them
        return str(error).splitlines()[0]
    return None


def _read(reader, key):
    """Reads a tensor, which checks its stored checksum."""
    try:
        reader.get_tensor(key)
    except (tf.errors.OpError, ValueError) as error:
        # The slots of a partitioned variable lack the sizes of the whole: a Saver reads them part by part.
        if "sufficient slices" not in str(error):
            raise


def _length_and_time(name):
    """Of a file; nothing of one that a training has meanwhile deleted."""
    with contextlib.suppress(FileNotFoundError, tf.errors.NotFoundError):
        if os.path.exists(name):
            status = os.stat(name)  # TensorFlow's own tells whole seconds only
            return status.st_size, status.st_mtime_ns
        status = tf.io.gfile.stat(name)
        return status.length, status.mtime_nsec
    return ()


def trained_steps(model_dir):
    """The global step that training in `model_dir` goes on from: 0 where there is no checkpoint."""
    checkpoint = latest_intact(model_dir)
    return read_global_step(checkpoint) if checkpoint else 0


def read_global_step(path):
    """The global step saved in the checkpoint at prefix `path`, an int.

    Raises:
      CheckpointError: it holds none, so that no Estimator wrote it.
    """
    reader = tf.train.load_checkpoint(path)
    for key in _STEP_KEYS:
        if reader.has_tensor(key):
            return int(reader.get_tensor(key))
    if in_name := re.search(r"\.ckpt-(\d+)$", path):  # a tf.train.Checkpoint may call the step anything
        return int(in_name.group(1))
    raise CheckpointError(f"Checkpoint {path} holds no global step: an Estimator did not write it.")


def restore(checkpoint, model, path, trains=False):
    """Restores `checkpoint`, a `tf.train.Checkpoint` whose root is the Keras `model`, from prefix `path`.

    Variables that do not exist yet get their values when they are made, if ever they are: in evaluation the optimizer's
    are not. `check_same_model` tells afterwards whether all were there. `trains`: whether the model will be trained.

    Raises:
      CheckpointError: the checkpoint is missing or damaged, or of another model; names the variables that differ.
    """
    damage = damage_of(path)
    if damage is not None:
        raise CheckpointError(f"Checkpoint {path} cannot be read: {damage}")
    if checkpoints_of_215.is_one(path):
        _restore_of_215(checkpoint, model, path, trains)
        return
    try:
        checkpoint.read(path).assert_existing_objects_matched().expect_partial()
    except (AssertionError, ValueError, tf.errors.InvalidArgumentError) as error:
        check_same_model(model, path)
        raise CheckpointError(f"Checkpoint {path} is of another model: {str(error).splitlines()[0]}") from error
    check_same_model(model, path)


def _restore_of_215(checkpoint, model, path, trains):
    if not model.built:
        raise CheckpointError(
            f"Checkpoint {path} is tf.estimator's, and the model has no variables yet to take its values: build the "
            "model, with an Input layer, input_shape or model.build(), before model_to_estimator."
        )
    optimizer = model.optimizer if trains else None
    if isinstance(optimizer, keras.optimizers.legacy.Optimizer):
        optimizer._create_all_weights(model.trainable_variables)
    elif isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer.build(model.trainable_variables)
    differences = checkpoints_of_215.restore(path, weights_by_key(model), checkpoint.estimator_global_step, optimizer)
    if differences:
        raise CheckpointError(f"Checkpoint {path} is of another model: {_shown(differences)}.")


def check_same_model(model, path):
    """Checks that `model` and the checkpoint at prefix `path` have the same weights, as far as the model is built.

    Raises:
      CheckpointError: they have not; names those that differ.
    """
    entries = tf.train.list_variables(path)
    saved = {key.removesuffix(_VALUE): tuple(shape) for key, shape in entries if key.endswith(_VALUE)}
    expected = {key: tuple(weight.shape) for key, weight in weights_by_key(model).items()}
    reshaped = [
        f"{key} is {saved[key]} in the checkpoint and {expected[key]} in the model"
        for key in sorted(saved.keys() & expected.keys())
        if not tf.TensorShape(expected[key]).is_compatible_with(saved[key])
    ]
    missing = [f"{key} {expected[key]} is not in the checkpoint" for key in sorted(expected.keys() - saved.keys())]
    # Only a functional model's layers are known to be complete: others make theirs when first called.
    extra = [
        f"{key} {saved[key]} is not in the model"
        for key in sorted(saved.keys() - expected.keys())
        if expected and key.startswith("layer_with_weights-") and "/.OPTIMIZER_SLOT/" not in key
    ]
    differences = reshaped + missing + extra
    if differences:
        raise CheckpointError(f"Checkpoint {path} is of another model: {_shown(differences)}.")


def check_same_shapes(variables, path):
    """Checks the shapes of `variables` against those of the same names in the name-based checkpoint at prefix `path`.

    TensorFlow restores a variable of another shape without a word.

    Raises:
      CheckpointError: some differ; names them.
    """
    saved = {name: tuple(shape) for name, shape in tf.train.list_variables(path)}
    differences = [
        f"{name} is {saved[name]} in the checkpoint and {tuple(variable.shape)} in the model"
        for variable in variables
        if (name := variable.name.removesuffix(":0")) in saved and not variable.shape.is_compatible_with(saved[name])
    ]
    if differences:
        raise CheckpointError(f"Checkpoint {path} is of another model: {_shown(differences)}.")


def weights_by_key(model):
    """The weights of `model`, as far as it is built, by their keys in a checkpoint, a dict of str to variables."""
    parts = parts_by_key(model)
    built = [part for part in (model, *parts.values()) if isinstance(part, keras.layers.Layer) and part.built]
    weights = {id(weight) for part in built if not isinstance(part, keras.metrics.Metric) for weight in part.weights}
    return {key: part for key, part in parts.items() if id(part) in weights}


def _shown(differences):
    return "; ".join(differences[:6]) + (f"; and {len(differences) - 6} more" if len(differences) > 6 else "")


def parts_by_key(model):
    """The trackable objects of `model`, its optimizer's left out, by their keys in a checkpoint.

    A key is the shortest path to the object, as it is when TensorFlow saves an object graph.
    """
    parts, queue, seen = {}, [("", model)], {id(model)}
    for prefix, node in queue:
        for name, child in tf.train.TrackableView.children(node).items():
            if id(child) in seen or (node is model and name == "optimizer"):
                continue
            seen.add(id(child))
            name = name.replace(".", "..").replace("/", ".S")  # as TensorFlow has it, whose keys are paths
            queue.append((f"{prefix}{name}/", child))
            parts[prefix + name] = child
    return parts
