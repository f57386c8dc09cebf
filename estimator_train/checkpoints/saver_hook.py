"""Hooks and listeners that save checkpoints during training."""

from __future__ import annotations

import time
import uuid

import tensorflow as tf

from estimator_train.checkpoints import object_based
from estimator_train.host import time_spent
from estimator_train.session import private_names

v1 = tf.compat.v1


class SaverHook(v1.train.CheckpointSaverHook):
    """TensorFlow's CheckpointSaverHook with a given timer.

    Args:
      model_dir: directory of the checkpoints.
      timer: a `tf.compat.v1.train.SecondOrStepTimer`.
      scaffold: the `tf.compat.v1.train.Scaffold` whose saver is used.
      listeners: `CheckpointSaverListener`s.
      save_graph_def: whether to write the graph next to the checkpoints.
    """

    def __init__(self, model_dir, timer, scaffold, listeners=(), *, save_graph_def=True):
        super().__init__(
            model_dir,
            save_steps=1,  # a placeholder: the timer is replaced below
            scaffold=scaffold,
            listeners=list(listeners),
            save_graph_def=save_graph_def,
        )
        private_names.set_timer(self, timer)


class DiscardingSaverHook(SaverHook):
    """Saves together with the chief, as every worker of a MultiWorkerMirroredStrategy must, and discards the result.

    It saves to memory, so a killed worker leaves no files behind.
    """

    def __init__(self, timer, scaffold):
        self._directory = f"ram://estimator_train-{uuid.uuid4()}"
        super().__init__(self._directory, timer, scaffold, [_DeleteCheckpoints(self._directory)], save_graph_def=False)

    def end(self, session):
        super().end(session)
        tf.io.gfile.rmtree(self._directory)


class _DeleteCheckpoints(v1.train.CheckpointSaverListener):
    def __init__(self, directory):
        self._directory = directory

    def after_save(self, session, global_step_value):
        for path in tf.io.gfile.glob(f"{self._directory}/model.ckpt-*"):
            tf.io.gfile.remove(path)


class WaitUntilWritten(v1.train.CheckpointSaverListener):
    """Waits until an asynchronous checkpoint is on disk, so that later listeners can read it."""

    def __init__(self, scaffold):
        self._scaffold = scaffold

    def after_save(self, session, global_step_value):
        object_based.wait_for(self._scaffold.saver)


class CountTime(v1.train.CheckpointSaverListener):
    """Adds the time that saving takes, without later listeners, to the time spent on checkpoints."""

    def before_save(self, session, global_step_value):
        self._start = time.perf_counter()

    def after_save(self, session, global_step_value):
        time_spent.add(time_spent.CHECKPOINT, time.perf_counter() - self._start)


def add_listeners(hook, listeners):
    """Appends `listeners` to those of a user's CheckpointSaverHook; each appears only once."""
    own = [listener for listener in private_names.listeners(hook) if listener not in listeners]
    private_names.set_listeners(hook, [*own, *listeners])


def prepare_listeners(hook, scaffold, is_async):
    """Puts our listeners before the others of a CheckpointSaverHook, so that these find the checkpoint on disk."""
    others = [each for each in private_names.listeners(hook) if not isinstance(each, WaitUntilWritten | CountTime)]
    waits = [WaitUntilWritten(scaffold)] if is_async and others else []
    private_names.set_listeners(hook, [*waits, CountTime(), *others])
