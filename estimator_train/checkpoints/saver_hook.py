"""The hooks that save the checkpoints of a training."""

from __future__ import annotations

import time
import uuid

import tensorflow as tf

from estimator_train.checkpoints import object_based
from estimator_train.host import time_spent
from estimator_train.session import private_names

v1 = tf.compat.v1


class SaverHook(v1.train.CheckpointSaverHook):
    """Saves as TensorFlow's CheckpointSaverHook does, when a given timer says so.

    Args:
      model_dir: directory of the checkpoints.
      timer: a `tf.compat.v1.train.SecondOrStepTimer`.
      scaffold: the `tf.compat.v1.train.Scaffold` whose saver saves.
      listeners: `CheckpointSaverListener`s.
      save_graph_def: whether the graph is written next to the checkpoints.
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
    """Takes part in the chief's saving, as every worker of a MultiWorkerMirroredStrategy has to, and keeps nothing.

    It saves to memory: a worker that is killed leaves no files.
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
    """Counts the time that saving takes as that of checkpoints, without that of later listeners."""

    def before_save(self, session, global_step_value):
        self._start = time.perf_counter()

    def after_save(self, session, global_step_value):
        time_spent.add(time_spent.CHECKPOINT, time.perf_counter() - self._start)


def add_listeners(hook, listeners):
    """Puts `listeners` behind the other listeners of a user's CheckpointSaverHook, each once."""
    own = [listener for listener in private_names.listeners(hook) if listener not in listeners]
    private_names.set_listeners(hook, [*own, *listeners])


def prepare_listeners(hook, scaffold, is_async):
    """Puts ours before the other listeners of a CheckpointSaverHook: these find the checkpoint on disk."""
    others = [each for each in private_names.listeners(hook) if not isinstance(each, WaitUntilWritten | CountTime)]
    waits = [WaitUntilWritten(scaffold)] if is_async and others else []
    private_names.set_listeners(hook, [*waits, CountTime(), *others])
