"""Warm start: initializes variables from another model's checkpoint."""

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.checkpoints.slots import variable_names
from estimator_train._engine.graph.saver import old_names
from estimator_train._engine.session.ancestors import ancestors

v1 = tf.compat.v1
log = tf.get_logger()

_OPTIMIZERS = (v1.train.Optimizer, keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)

VocabInfo: TypeAlias = tf.compat.v1.train.VocabInfo


class _Settings(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: Any
    var_name_to_vocab_info: Mapping[str, VocabInfo]
    var_name_to_prev_var_name: Mapping[str, str]


class WarmStartSettings(_Settings):
    """Names a checkpoint and the variables to initialize from it.

        >>> settings = et.WarmStartSettings("runs/dnn", vars_to_warm_start=".*hiddenlayer.*")
        >>> x = tf.feature_column.numeric_column("x")
        >>> classifier = et.DNNClassifier([8], [x], "runs/warm", n_classes=5, warm_start_from=settings)

    Args:
      ckpt_to_initialize_from: a checkpoint's path prefix, a directory of checkpoints, or a SavedModel's directory.
      vars_to_warm_start: as for `tf.compat.v1.train.warm_start`: a regular expression, which selects trainable
        variables by name; a list of them, which selects among all global variables; or None, which selects only the
        variables in `var_name_to_vocab_info`.
      var_name_to_vocab_info: dict of variable names to `VocabInfo`, for variables with one row per vocabulary entry.
      var_name_to_prev_var_name: dict of variable names to their names in the checkpoint, if they differ.

    Raises ValueError if no checkpoint is named.
    """

    __slots__ = ()

    def __new__(
        cls,
        ckpt_to_initialize_from: str,
        vars_to_warm_start: str | Sequence[Any] | None = ".*",
        var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
    ) -> "WarmStartSettings":
        if not ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        maps = var_name_to_vocab_info or {}, var_name_to_prev_var_name or {}
        return super().__new__(cls, ckpt_to_initialize_from, vars_to_warm_start, *maps)


WarmStart: TypeAlias = str | bytes | os.PathLike[str] | WarmStartSettings


def check(warm_start_from: WarmStart | None) -> WarmStart | None:
    """Returns `warm_start_from`. Raises ValueError unless it is None, a path or a `WarmStartSettings`."""
    if warm_start_from is not None and not isinstance(warm_start_from, (str, bytes, os.PathLike, WarmStartSettings)):
        raise ValueError(f"warm_start_from must be a string or a WarmStartSettings, given: {warm_start_from!r}")
    return warm_start_from


@contextlib.contextmanager
def noting_layer_variables() -> Iterator[list[tf.Variable]]:
    """Yields a list that collects the variables which layers create inside the block, in a v1 graph."""
    variables = []

    def creator(next_creator: Callable[..., tf.Variable], **settings: Any) -> tf.Variable:
        variable = next_creator(**settings)
        # The graph itself does not tell BatchNorm's statistics from other variables that are not trained, such as a
        # learning rate. An optimizer's variables are never a layer's.
        frame = inspect.currentframe()
        while frame is not None and not isinstance(frame.f_locals.get("self"), (keras.layers.Layer, *_OPTIMIZERS)):
            frame = frame.f_back
        if frame is not None and isinstance(frame.f_locals["self"], keras.layers.Layer):
            variables.append(variable)
        return variable

    with v1.variable_creator_scope(creator):
        yield variables


def apply(warm_start_from: WarmStart, layer_variables: list[tf.Variable]) -> None:
    """Initializes variables of the default graph from the checkpoint; call it once all variables exist.

    A path selects the trainable variables, and those non-trainable ones in the checkpoint that are state of the model:
    variables of layers, which the list `layer_variables` holds, and variables that UPDATE_OPS move. Others, such as a
    learning rate, keep their initial values. Raises ValueError if a selected variable is not in the checkpoint or has
    another shape there.
    """
    log.info("Warm-starting with WarmStartSettings: %s", warm_start_from)
    if isinstance(warm_start_from, WarmStartSettings):
        v1.train.warm_start(_checkpoint(warm_start_from.ckpt_to_initialize_from), *warm_start_from[1:])
        return
    path = _checkpoint(warm_start_from)
    reader = tf.train.load_checkpoint(path)
    saved = {*reader.get_variable_to_shape_map(), *variable_names(reader).values()}  # the names that warm_start finds
    trained = {id(variable) for variable in v1.trainable_variables()}
    state = set(map(id, layer_variables)) | _moved_by_updates()
    chosen = [
        variable
        for variable in v1.global_variables()
        if id(variable) in trained or (id(variable) in state and variable.op.name in saved)
    ]
    taken = sorted(variable.op.name for variable in chosen if id(variable) not in trained)
    log.info("Warm-starting all trainable variables, and these that are not trained: %s", ", ".join(taken) or "none")
    v1.train.warm_start(path, vars_to_warm_start=chosen, var_name_to_prev_var_name=old_names(saved))


def _moved_by_updates() -> set[int]:
    updates = ancestors(getattr(update, "op", update) for update in v1.get_collection(v1.GraphKeys.UPDATE_OPS))
    return {
        id(variable)
        for variable in v1.global_variables()
        for own in getattr(variable, "values", (variable,))  # those of each replica
        if any(op in updates and "Assign" in op.type for op in own.op.outputs[0].consumers())
    }


def _checkpoint(path: str | bytes | os.PathLike[str]) -> str:
    """Returns the checkpoint for `path`: the one inside, if it is a SavedModel's directory, otherwise `path` itself."""
    path = os.fsdecode(path)
    in_saved_model = os.path.join(path, "variables", "variables")
    return in_saved_model if tf.io.gfile.exists(f"{in_saved_model}.index") else path
