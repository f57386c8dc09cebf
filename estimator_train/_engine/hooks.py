"""How the Estimator's loop deals with hooks: it checks them, asks which step they need next, and ends their epochs."""

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

import tensorflow as tf

from estimator_train._engine.keras_forms import is_array, is_callback, shown
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session import private_tensorflow
from estimator_train._engine.session.timer import StepTimer
from estimator_train._engine.types import SessionRunHook

v1 = tf.compat.v1


def next_look(hooks: Collection[SessionRunHook], global_step: int) -> float:
    """Returns the first step after `global_step` that one of the hooks needs to see; math.inf if none needs any.

    A hook says so by a method `next_look(global_step)`, and for TensorFlow's own hooks their timers do. Another sees
    every step, as in tf.estimator, unless it does nothing before and after a step. Called after the `before_run` of the
    hooks. Raises ValueError if a hook returns a step that is no later one.
    """
    if see_each_step(hooks):
        return global_step + 1
    looks = math.inf
    for hook in hooks:
        own_look = _look_of(hook)
        if own_look is not None:
            look = own_look(global_step)
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
        if not _is_stock(hook)
        for name in ("before_run", "after_run")
    )


def watches_loss(hook: SessionRunHook, loss: tf.Tensor | str) -> bool:
    """Returns whether a hook is TensorFlow's that looks for NaN in `loss`, a tensor or its name: it ends a call."""
    if type(hook) is not v1.train.NanTensorHook or _has_own_methods(hook):
        return False
    watched = private_tensorflow.watched_tensor(hook)
    return watched is loss or (isinstance(watched, str) and watched == getattr(loss, "name", loss))


def count_steps(hooks: Iterable[SessionRunHook], steps: int) -> None:
    """Lets each LoggingTensorHook, which counts calls, count the `steps` of a call before its `after_run`."""
    for hook in hooks:
        if _is_stock(hook) and isinstance(hook, v1.train.LoggingTensorHook):
            private_tensorflow.add_calls(hook, steps - 1)


def _look_of(hook: SessionRunHook) -> Callable[[int], float] | None:
    if _is_stock(hook):
        return lambda global_step: _STOCK_LOOKS[type(hook)](hook, global_step)
    return getattr(hook, "next_look", None)


def _is_stock(hook: SessionRunHook) -> bool:
    return type(hook) in _STOCK_LOOKS and not _has_own_methods(hook)


def _has_own_methods(hook: SessionRunHook) -> bool:
    return not vars(hook).keys().isdisjoint(("before_run", "after_run"))


def _look_of_stop(hook: tf.compat.v1.train.StopAtStepHook, global_step: int) -> float:
    last_step = private_tensorflow.last_step(hook)
    return global_step + 1 if last_step is None else max(last_step, global_step + 1)


def _look_of_timer(hook: SessionRunHook, global_step: int) -> float:
    return _next_trigger(private_tensorflow.timer(hook), global_step)


def _look_of_request(hook: SessionRunHook, global_step: int) -> float:
    """The next step of a hook that decides before a step, by the number of the next, what it fetches in it."""
    if private_tensorflow.requests_summary(hook):
        return global_step + 1
    trigger = _next_trigger(private_tensorflow.timer(hook), global_step)
    return trigger if trigger == global_step + 1 else trigger - 1


def _look_of_logging(hook: tf.compat.v1.train.LoggingTensorHook, global_step: int) -> float:
    if private_tensorflow.logs_now(hook):
        return global_step + 1
    calls = private_tensorflow.calls_counted(hook)
    return global_step + _next_trigger(private_tensorflow.timer(hook), calls) - calls


def _next_trigger(timer: tf.compat.v1.train.SecondOrStepTimer, step: int) -> float:
    """Returns the next step at which a timer of steps triggers; one of seconds is asked after each call."""
    if isinstance(timer, StepTimer):
        return timer.next_look(step)
    every, last = private_tensorflow.every_steps(timer), timer.last_triggered_step()
    if every is None:
        return math.inf
    return step + 1 if last is None else max(last + every, step + 1)


# Subclasses may do more, and look at each step.
_STOCK_LOOKS: dict[type[SessionRunHook], Callable[[Any, int], float]] = {
    v1.train.CheckpointSaverHook: _look_of_timer,
    v1.train.LoggingTensorHook: _look_of_logging,
    v1.train.ProfilerHook: _look_of_request,
    v1.train.StepCounterHook: _look_of_timer,
    v1.train.StopAtStepHook: _look_of_stop,
    v1.train.SummarySaverHook: _look_of_request,
}


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


def check_listeners(listeners: Iterable[Any] | None, kind: type, message: str) -> tuple[Any, ...]:
    """Returns `listeners`, an iterable or None, as a tuple.

    Raises TypeError with `message` if it is not iterable, or for an object in it of another class than `kind`.
    """
    if not isinstance(listeners, Iterable | None):
        raise TypeError(f"{message}, given: {listeners!r}, which is not a list{_way_of_callback(listeners)}")
    listeners = tuple(listeners or ())
    for listener in listeners:
        if not isinstance(listener, kind):
            raise TypeError(f"{message}, given: {listener}{_way_of_callback(listener)}")
    return listeners
