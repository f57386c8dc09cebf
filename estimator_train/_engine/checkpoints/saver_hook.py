"""Hooks and listeners that save checkpoints during training."""

import contextlib
import copy
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimator_train._engine.checkpoints import object_based, private_tensorflow
from estimator_train._engine.host import time_spent
from estimator_train._engine.session.private_tensorflow import set_timer
from estimator_train._engine.session.timer import StepTimer
from estimator_train._engine.types import CheckpointSaverHook, CheckpointSaverListener, Hooks, Scaffold, Session

_ADDED = "_added_by_training"  # an attribute of a user's hook: the listeners that the last training has added


class SaverHook(CheckpointSaverHook):
    """TensorFlow's CheckpointSaverHook with a given timer; `settings` are the others of that class."""

    def __init__(self, model_dir: str, timer: tf.compat.v1.train.SecondOrStepTimer, **settings: Any) -> None:
        super().__init__(model_dir, save_steps=1, **settings)  # a placeholder, for which the timer comes
        set_timer(self, timer)


class DiscardingSaverHook(SaverHook):
    """Saves with the chief, as all synchronous workers must, but to memory: a killed worker leaves no files behind."""

    def __init__(self, timer: tf.compat.v1.train.SecondOrStepTimer, scaffold: Scaffold) -> None:
        self._directory = f"ram://estimator_train-{uuid.uuid4()}"
        listeners = [_DeleteCheckpoints(self._directory)]
        super().__init__(self._directory, timer, scaffold=scaffold, listeners=listeners, save_graph_def=False)

    def end(self, session: Session) -> None:
        super().end(session)
        tf.io.gfile.rmtree(self._directory)


class _DeleteCheckpoints(CheckpointSaverListener):
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def after_save(self, session: Session, global_step_value: int) -> None:
        for path in tf.io.gfile.glob(f"{self._directory}/model.ckpt-*"):
            tf.io.gfile.remove(path)


class _FirstListener(CheckpointSaverListener):
    """Notes checkpoints and adds the time of saving them, without later listeners, to the time spent on checkpoints.

    Later listeners can read an asynchronous checkpoint of the `awaited` Scaffold, because this one waits for it.
    """

    step: int | None = None  # of the last complete checkpoint; the hook's own timer is ahead of an interrupted one

    def __init__(self, awaited: Scaffold | None) -> None:
        self._awaited = awaited

    def before_save(self, session: Session, global_step_value: int) -> None:
        self._start = time.perf_counter()

    def after_save(self, session: Session, global_step_value: int) -> None:
        if self._awaited is not None:
            object_based.wait_for(self._awaited.saver)
        time_spent.add(time_spent.CHECKPOINT, time.perf_counter() - self._start)
        self.step = global_step_value


class SavingHook(tf.compat.v1.train.SessionRunHook):
    """Base class of hooks that may save the steps done, as from another thread while the training waits for input."""

    save: Callable[[Session], None]  # set by the Estimator before training


def give_save(hooks: Hooks, savers: Sequence[CheckpointSaverHook], scaffold: Scaffold) -> None:
    """Sets `save` of each `SavingHook` to a function that saves through the CheckpointSaverHooks `savers`."""

    def save(session: Session) -> None:
        _save_last_step(savers, session)
        object_based.wait_for(scaffold.saver)

    for hook in hooks:
        if isinstance(hook, SavingHook):
            hook.save = save


@contextlib.contextmanager
def saving_on_interrupt(
    session: tf.compat.v1.train.MonitoredSession, savers: Iterable[CheckpointSaverHook]
) -> Iterator[None]:
    """Saves the steps done, through the CheckpointSaverHooks `savers`, if KeyboardInterrupt is raised in the block."""
    try:
        yield
    except KeyboardInterrupt:
        session.run_step_fn(lambda step_context: _save_last_step(savers, step_context.session))
        raise


def _save_last_step(savers: Iterable[CheckpointSaverHook], session: Session) -> None:
    """Saves the steps done through CheckpointSaverHooks, without their listeners, which may evaluate for an hour."""
    for saver in map(copy.copy, savers):
        (first,) = (each for each in private_tensorflow.listeners(saver) if isinstance(each, _FirstListener))
        if first.step != session.run(tf.compat.v1.train.get_global_step()):
            private_tensorflow.set_listeners(saver, [])
            set_timer(saver, StepTimer(every_steps=1))  # a new one, because the saver's may be ahead
            saver.end(session)


def add_listeners(hook: CheckpointSaverHook, listeners: Sequence[CheckpointSaverListener]) -> None:
    """Appends the `listeners` of a training to those of a user's CheckpointSaverHook, without an earlier training's."""
    earlier = vars(hook).get(_ADDED, ())
    own = [listener for listener in private_tensorflow.listeners(hook) if listener not in earlier]
    others = [listener for listener in own if listener not in listeners]
    private_tensorflow.set_listeners(hook, [*others, *listeners])
    setattr(hook, _ADDED, [listener for listener in listeners if listener not in own])


def prepare_listeners(hook: CheckpointSaverHook, scaffold: Scaffold, is_async: bool) -> None:
    """Puts our listener before the others of a CheckpointSaverHook, so that these find the checkpoint on disk."""
    others = [each for each in private_tensorflow.listeners(hook) if not isinstance(each, _FirstListener)]
    awaited = scaffold if is_async and others else None
    private_tensorflow.set_listeners(hook, [_FirstListener(awaited), *others])
