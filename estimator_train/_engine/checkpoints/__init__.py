"""Finds and verifies checkpoints of every format."""

import contextlib
import functools
import itertools
import os
import re
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from estimator_train._engine.host.checkpoint_files import all_damaged
from estimator_train._engine.host.files import names_in, size_and_time, write_whole
from estimator_train._engine.host.model_dirs import checkpoints_among
from estimator_train._engine.host.paths import is_remote
from estimator_train._engine.remedies import UserError

CheckpointState: TypeAlias = Any  # the message, whose class TensorFlow does not make public

Stamp: TypeAlias = tuple[tuple[str | int, ...], ...]

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"  # the end of a variable's key in an object-based checkpoint
# The keys in checkpoints of Keras models, in name-based ones, and in a tf.train.Checkpoint saved by a model_fn.
_STEP_KEYS = ("estimator_global_step" + VALUE, "global_step", "global_step" + VALUE)


class CheckpointReader(Protocol):
    """The methods of TensorFlow's reader of a checkpoint, whose class has no public name."""

    def has_tensor(self, name: str) -> bool: ...
    def get_tensor(self, name: str) -> np.ndarray: ...
    def get_variable_to_dtype_map(self) -> dict[str, tf.DType]: ...
    def get_variable_to_shape_map(self) -> dict[str, list[int]]: ...


class CheckpointError(UserError, ValueError):
    """A checkpoint is damaged, missing, or belongs to another model."""


def latest_intact(model_dir: str | os.PathLike[str]) -> str | None:
    """Returns the path prefix of the newest undamaged checkpoint in `model_dir`, or None if there are no checkpoints.

    Logs a warning for each damaged checkpoint that is skipped. Raises CheckpointError if all are damaged, except for a
    checkpoint of step 0 that no `checkpoint` file names: the process was killed while saving it, and nothing is lost.
    """
    state = _state(model_dir)
    paths = _listed(state) if state else _recovered(model_dir)
    for path in reversed(paths):
        damage = damage_of(path)
        if damage is None:
            return path
        tf.get_logger().warning("Checkpoint %s is damaged; trying the one before it: %s", path, damage)
    if paths and _state(model_dir) != state:
        return latest_intact(model_dir)  # a training process has replaced these checkpoints meanwhile
    if paths and (state or not paths[-1].endswith(".ckpt-0")):
        others = [path for path in _checkpoints_in(model_dir) if path not in paths and damage_of(path) is None]
        raise CheckpointError(all_damaged(model_dir, paths[-1], others))
    return None


def kept_in(model_dir: str | os.PathLike[str]) -> list[str]:
    """Returns the checkpoints that the `checkpoint` file of `model_dir` lists, oldest first, or those found there."""
    state = _state(model_dir)
    if state is None:
        return _recovered(model_dir)
    return list(state.all_model_checkpoint_paths) or [state.model_checkpoint_path]


def recover_state(model_dir: str | os.PathLike[str], keep_max: int | None) -> None:
    """Rewrites the `checkpoint` file of `model_dir` if savers cannot rely on it.

    It may be missing or unreadable, or list checkpoints outside `model_dir`, which savers would delete in time. It will
    list the `keep_max` newest, all for 0 or None. Raises CheckpointError if a directory has its name.
    """
    state = _state(model_dir)
    if state and state == _state_on_disk(model_dir):
        return
    paths = _listed(state) if state else [path for path in _checkpoints_in(model_dir) if damage_of(path) is None]
    paths = paths[-(keep_max or 0) :]
    if not paths:
        return
    file = os.path.join(model_dir, "checkpoint")
    if tf.io.gfile.isdir(file):
        raise CheckpointError(f"{file} is a directory, but TensorFlow needs a file there; remove it.")
    times = [tf.io.gfile.stat(f"{path}.index").mtime_nsec / 1e9 for path in paths]
    names = [os.path.basename(path) for path in paths]
    state = tf.compat.v1.train.generate_checkpoint_state_proto(model_dir, names[-1], names, times, min(times) - 1)
    write_whole(file, text_format.MessageToString(state))


def _state(model_dir: str | os.PathLike[str]) -> CheckpointState | None:
    """Returns the CheckpointState of `model_dir`, None if unreadable; CheckpointError if it resumes from elsewhere."""
    # Savers may write absolute paths, which keep naming the old directory after a run has been moved or copied. A path
    # outside `model_dir` therefore stands for the checkpoint of the same name in it, and is left out if there is none.
    state = _state_on_disk(model_dir)
    if state is None:
        return None
    newest = _inside(model_dir, state.model_checkpoint_path)
    if newest is None:
        raise CheckpointError(
            f"{os.path.join(model_dir, 'checkpoint')} names {state.model_checkpoint_path}, which is outside "
            f"{model_dir}; copy that checkpoint there, delete the file, or use warm_start_from."
        )
    times = state.all_model_checkpoint_timestamps or itertools.repeat(0.0)
    listed = zip(state.all_model_checkpoint_paths, times, strict=False)
    inside = {own: time for path, time in listed if (own := _inside(model_dir, path))}
    state.model_checkpoint_path = newest
    state.all_model_checkpoint_paths[:] = inside
    if state.all_model_checkpoint_timestamps:
        state.all_model_checkpoint_timestamps[:] = inside.values()
    return state


def _inside(model_dir: str | os.PathLike[str], path: str) -> str | None:
    """Returns `path` if it is in `model_dir`, or else the checkpoint of that name there, or None."""
    resolve = os.path.normpath if is_remote(model_dir) or is_remote(path) else os.path.realpath
    directory = resolve(model_dir)
    if f"{resolve(os.path.dirname(path))}/".startswith(f"{directory}/"):
        return path
    own = os.path.join(model_dir, os.path.basename(path))
    return own if tf.io.gfile.exists(f"{own}.index") else None


def _state_on_disk(model_dir: str | os.PathLike[str]) -> CheckpointState | None:
    try:
        return tf.train.get_checkpoint_state(model_dir)
    except ValueError:  # not UTF-8, or no checkpoint listed
        return None


def _listed(state: CheckpointState) -> list[str]:
    """Returns the checkpoints of a CheckpointState up to the one to resume from; users may choose an older one."""
    paths, newest = list(state.all_model_checkpoint_paths), state.model_checkpoint_path
    return [*paths[: paths.index(newest)], newest] if newest in paths else [newest]


def _recovered(model_dir: str | os.PathLike[str]) -> list[str]:
    paths = _checkpoints_in(model_dir)
    if paths:
        tf.get_logger().warning(
            "%s is missing or cannot be read; the newest checkpoint in its directory is %s",
            os.path.join(model_dir, "checkpoint"),
            os.path.basename(paths[-1]),
        )
    return paths


def _checkpoints_in(model_dir: str | os.PathLike[str]) -> list[str]:
    return [os.path.join(model_dir, name) for name in checkpoints_among(names_in(model_dir))]


def reader_of(path: str) -> CheckpointReader:
    """Returns a checkpoint's reader. Raises CheckpointError if there is no checkpoint at the prefix `path`."""
    try:  # tf.train.load_checkpoint would mistake a prefix in ram:// for a directory
        return tf.compat.v1.train.NewCheckpointReader(path)
    except tf.errors.NotFoundError as error:
        raise CheckpointError(f"The passed path is not a valid checkpoint: {path}") from error


def damage_of(path: str) -> str | None:
    """Returns in one line why the checkpoint at prefix `path` cannot be read completely, or None if it can."""
    return _damage_of(path, stamp(path))


def stamp(path: str | None) -> Stamp:
    """Returns a value that changes when the checkpoint at prefix `path` is written again; () for None."""
    if path is None:
        return ()
    directory, prefix = os.path.split(f"{path}.")  # listed, because gfile.glob starts threads
    names = sorted(names_in(directory or "."))
    files = [os.path.join(directory, name) for name in names if name.startswith(prefix)]
    return tuple((file, *_length_and_time(file)) for file in files)


@functools.lru_cache(maxsize=64)
def _damage_of(path: str, stamp: Stamp) -> str | None:
    del stamp  # only a cache key
    try:
        reader = reader_of(path)
        for key, dtype in reader.get_variable_to_dtype_map().items():
            if dtype not in (tf.variant, tf.resource):  # an iterator's state: only its own op can read it
                _read(reader, key)
    except (tf.errors.OpError, IndexError, ValueError, RuntimeError) as error:  # TensorFlow raises any of them
        return str(error).splitlines()[0]
    return None


def _read(reader: CheckpointReader, key: str) -> None:
    """Reads a tensor to verify its checksum."""
    try:
        reader.get_tensor(key)
    except (tf.errors.OpError, ValueError) as error:
        # The slots of a partitioned variable do not store its full shape; a Saver reads them part by part.
        if "sufficient slices" not in str(error):
            raise


def _length_and_time(name: str) -> tuple[int, ...]:
    """Returns (length, modification time) of a file, or () if a training has deleted it in the meantime."""
    with contextlib.suppress(FileNotFoundError, tf.errors.NotFoundError):
        return size_and_time(name)
    return ()


def read_global_step(path: str) -> int:
    """Returns the global step in the checkpoint at prefix `path`; raises CheckpointError if it has none."""
    reader = reader_of(path)
    for key in _STEP_KEYS:
        if reader.has_tensor(key):
            return int(reader.get_tensor(key))
    if in_name := re.search(r"\.ckpt-(\d+)$", path):  # in a tf.train.Checkpoint, the step may have any key
        return int(in_name.group(1))
    raise CheckpointError(f"Checkpoint {path} has no global step, so it was not written by an Estimator.")


def variable_name(variable: tf.Variable) -> str:
    """Returns a variable's name without the number of its op's output, as name-based checkpoints have it."""
    return variable.name.removesuffix(":0")


def other_model(path: str, differences: Sequence[str]) -> CheckpointError:
    """Returns the CheckpointError for the checkpoint at prefix `path`, which lists the first of `differences`."""
    shown = "; ".join(differences[:6])
    if len(differences) > 6:
        shown += f"; and {len(differences) - 6} more"
    return CheckpointError(f"Checkpoint {path} is of another model: {shown}.")
