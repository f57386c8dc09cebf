"""How the Estimator's loop deals with hooks: it checks them, asks which step they need next, and ends their epochs."""

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

import tensorflow as tf

from estimator_train._engine.keras_forms import is_array, is_callback, shown
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.types import CheckpointSaverListener, SessionRunHook


def next_look(hooks: Collection[SessionRunHook], global_step: int) -> float:
    """Returns the first step after `global_step` that one of the hooks needs to see; math.inf if none needs any.

    A hook says so by a method `next_look(global_step)`. One without it sees every step, as in tf.estimator, unless it
    does nothing before and after a step. Raises ValueError if a hook returns a step that is no later one.
    """
    if see_each_step(hooks):
        return global_step + 1
    looks = math.inf
    for hook in hooks:
        if hasattr(hook, "next_look"):
            look = hook.next_look(global_step)
            if not look > global_step:
                raise ValueError(
                    f"{type(hook).__name__}.next_look({global_step}) returned {look}; return a later step, or math.inf"
                )
            looks = min(looks, look)
    if looks == math.inf:
        return looks
    return math.ceil(looks)


def see_each_step(hooks: Iterable[SessionRunHook]) -> bool:
    """Returns whether a hook has a method called before or after steps that no `next_look` of its own class covers."""
    return any(
        _level(hook, name) < _level(hook, "next_look") and is_overridden(hook, name, SessionRunHook)
        for hook in hooks
        for name in ("before_run", "after_run")
    )


def _level(instance: object, method: str) -> int:
    """Returns how many base classes up the method is defined, 0 in the instance itself; a large number if nowhere."""
    owners = [getattr(instance, "__dict__", {}), *map(vars, type(instance).__mro__)]
    return next((level for level, names in enumerate(owners) if method in names), len(owners))


def is_overridden(instance: object, method: str, base: type) -> bool:
    """Returns whether the method is another than that of the class `base`, by a subclass or in the instance itself."""
    return getattr(getattr(instance, method), "__func__", None) is not getattr(base, method)


def takes_each_step(hooks: Iterable[SessionRunHook]) -> bool:
    """Returns whether one of the hooks needs the values of every step, `step_outputs.EACH_STEP`, when it looks."""
    return any(getattr(hook, "takes_each_step", False) for hook in hooks)


class EpochHook(SessionRunHook):
    """Base class of hooks that divide the training of a Keras model into epochs, with running metrics as in fit."""

    steps_per_epoch: int | None  # global steps in an epoch; None means that each evaluation ends an epoch
    first_step: int = 0  # global step from which epochs of so many steps count

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
    if is_array(hooks):
        raise TypeError(f"{message}, given: {shown(hooks)}; labels belong to what the input_fn returns")
    if not isinstance(hooks, Iterable | None):
        raise TypeError(f"{message} in a list, given: {hooks!r}{_way_of_callback(hooks)}")
    hooks = tuple(hooks or ())
    for hook in hooks:
        if not isinstance(hook, tf.compat.v1.train.SessionRunHook):
            raise TypeError(f"{message}, given: {hook}{_way_of_callback(hook)}")
    return hooks


def _way_of_callback(given: object) -> str:
    return "; pass Keras callbacks as hooks=[CallbacksHook([...])]" if is_callback(given) else ""


def check_listeners(
    listeners: Iterable[CheckpointSaverListener] | None, message: str
) -> tuple[CheckpointSaverListener, ...]:
    """Returns `listeners`, an iterable or None, as a tuple. Raises TypeError with `message` for other objects in it."""
    listeners = tuple(listeners or ())
    for listener in listeners:
        if not isinstance(listener, tf.compat.v1.train.CheckpointSaverListener):
            raise TypeError(f"{message}, given: {listener}{_way_of_callback(listener)}")
    return listeners
