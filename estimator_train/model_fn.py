"""What a model is to the Estimator's loop in each mode: ModeKeys, EstimatorSpec, and the run they make."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf


class ModeKeys:
    """The three modes of a model, as strings."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class EstimatorSpec(
    NamedTuple(
        "EstimatorSpec",
        [
            ("mode", str),
            ("predictions", Any),
            ("loss", Any),
            ("train_op", Any),
            ("eval_metric_ops", dict),
            ("export_outputs", Any),
            ("training_chief_hooks", tuple),
            ("training_hooks", tuple),
            ("scaffold", Any),
            ("evaluation_hooks", tuple),
            ("prediction_hooks", tuple),
        ],
    )
):
    """The tensors, ops and hooks of a model in one mode.

    Raises:
      ValueError: TRAIN without loss or train_op, EVAL without loss, PREDICT without predictions.
      TypeError: a hook that is no `tf.compat.v1.train.SessionRunHook`.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode,
        predictions=None,
        loss=None,
        train_op=None,
        eval_metric_ops=None,
        export_outputs=None,
        training_chief_hooks=None,
        training_hooks=None,
        scaffold=None,
        evaluation_hooks=None,
        prediction_hooks=None,
    ):
        if mode not in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
            raise ValueError(f"mode must be one of ModeKeys, given: {mode!r}")
        if loss is None and mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        if train_op is None and mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        if predictions is None and mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions.")
        hooks = [
            check_hooks(given) for given in (training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks)
        ]
        return super().__new__(
            cls,
            mode,
            {} if predictions is None else predictions,
            loss,
            train_op,
            eval_metric_ops or {},
            export_outputs,
            hooks[0],
            hooks[1],
            scaffold or tf.compat.v1.train.Scaffold(),
            hooks[2],
            hooks[3],
        )


@dataclasses.dataclass(frozen=True)
class Run:
    """A model made ready for one train, evaluate or predict: what the Estimator's loop drives.

    Attributes:
      graph: the `tf.Graph` that hooks see.
      spec: its `EstimatorSpec`. In EVAL, `eval_metric_ops` holds the loss too.
      session_creator: the `tf.compat.v1.train.SessionCreator` whose session restores the state and runs the steps.
      input_hooks: hooks that the input needs, such as an iterator's initialiser.
    """

    graph: tf.Graph
    spec: EstimatorSpec
    session_creator: tf.compat.v1.train.SessionCreator
    input_hooks: tuple = ()


def check_hooks(hooks):
    """`hooks` as a tuple. Raises TypeError for one that is no SessionRunHook."""
    for hook in hooks or ():
        if not isinstance(hook, tf.compat.v1.train.SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return tuple(hooks or ())
