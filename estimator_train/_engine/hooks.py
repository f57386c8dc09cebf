"""EpochHook, the interface between Keras callbacks and the Estimator's loop, and the check of a user's hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimator_train._engine.types import SessionRunHook

if TYPE_CHECKING:
    from estimator_train.run_config import RunConfig


class EpochHook(SessionRunHook):
    """Base class of hooks that divide the training of a Keras model into epochs, with running metrics as in fit.

    Attributes:
      steps_per_epoch: global steps in an epoch; None means that each evaluation ends an epoch.
    """

    steps_per_epoch: int | None

    def attach(self, model: Any, reset_metrics: Callable[[], None], config: RunConfig) -> None:
        """Called before `begin` with the model being trained, a function that resets its metrics, and the RunConfig."""
        raise NotImplementedError

    def evaluated(self, metrics: dict[str, Any]) -> None:
        """Called by `train_and_evaluate` with the metrics of an evaluation, in or before the step's `after_run`."""
        raise NotImplementedError


def check_hooks(
    hooks: Iterable[SessionRunHook] | None, message: str = "Hooks must be a SessionRunHook"
) -> tuple[SessionRunHook, ...]:
    """Returns `hooks`, an iterable or None, as a tuple. Raises TypeError with `message` for other objects in it."""
    hooks = tuple(hooks or ())
    for hook in hooks:
        if not isinstance(hook, tf.compat.v1.train.SessionRunHook):
            mend = "; pass Keras callbacks as CallbacksHook([...])" if hasattr(hook, "on_train_begin") else ""
            raise TypeError(f"{message}, given: {hook}{mend}")
    return hooks
