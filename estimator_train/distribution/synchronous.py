"""Training in step in several processes: what those of a MultiWorkerMirroredStrategy do together.

Every process runs the same loop, and the strategy's collective ops hold them in step. So all of them stop where one
would, and all save where the chief does: what the replicas have of their own, such as the statistics of BatchNorm, is
put together of all. What the others save is thrown away.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path

import tensorflow as tf

from estimator_train.session.private_names import eager_mode

v1 = tf.compat.v1


class LostWorkerError(RuntimeError):
    """Another process of the cluster is gone, so that this one cannot go on either."""


def spans_workers(strategy):
    """Whether `strategy`, which may be None, spans the processes of a cluster."""
    is_multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return is_multi_worker and bool(strategy.cluster_resolver.cluster_spec())


@contextlib.contextmanager
def explaining_lost_worker(strategy):
    """Turns what TensorFlow raises in the processes of `strategy` when one of them is gone into a LostWorkerError.

    MonitoredSession would take TensorFlow's for one that a new session recovers from.
    """
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        if not spans_workers(strategy):
            raise
        tasks = sorted(set(re.findall(r"/job:(\w+)/replica:\d+/task:(\d+)", str(error))))
        gone = ", ".join(" ".join(task) for task in tasks) or f"a task ({str(error).splitlines()[0]})"
        raise LostWorkerError(
            f"TF_CONFIG's cluster has lost {gone}. Start that and this task again: training goes on from the last "
            "checkpoint."
        ) from error


def summing(strategy):
    """A function that all processes of `strategy` call with ints or bools: it gives their sums over the replicas.

    The sums are a list of ints. Raises LostWorkerError.
    """

    @tf.function
    def total(values):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(values,)), axis=None)

    def sums(*values):
        with eager_mode(), explaining_lost_worker(strategy):
            return total(tf.constant([int(value or 0) for value in values], tf.int64)).numpy().tolist()

    return sums


def in_step(hooks, user_hooks, config, scaffold):
    """The hooks of one process's training, `hooks`, with those that keep it in step with the others.

    Raises:
      ValueError: there is a CheckpointSaverHook among `user_hooks`.
    """
    savers = [hook for hook in hooks if isinstance(hook, v1.train.CheckpointSaverHook)]
    if not set(savers).isdisjoint(user_hooks):
        raise ValueError(
            "Under MultiWorkerMirroredStrategy every process saves in step with the others, which a "
            "CheckpointSaverHook among the hooks does not; set save_checkpoints_steps or save_checkpoints_secs of "
            "RunConfig."
        )
    steps, secs = config.save_checkpoints_steps, config.save_checkpoints_secs
    if not config.is_chief and (steps or secs):
        savers = [_ThrowingAway(scaffold, steps, secs)]
        hooks = [*savers, *hooks]
    timer = None
    for saver in savers if secs else []:
        timer = saver._timer = _AgreedTimer(secs)  # it takes none in its constructor
    sums = summing(config.train_distribute)
    return [_SameStart(config, sums), *hooks, _Agreement(config, sums, timer)]


class _SameStart(v1.train.SessionRunHook):
    """The first hook of every process: before anything is saved they make sure that they start alike."""

    def __init__(self, config, sums):
        self._replicas = config.train_distribute.num_replicas_in_sync
        self._sums = sums
        self._global_step = v1.train.get_global_step()

    def after_create_session(self, session, coord):
        step = int(session.run(self._global_step))
        if self._sums(step, step**2) != [step * self._replicas, step**2 * self._replicas]:
            raise ValueError(
                f"The processes of TF_CONFIG's cluster start from different checkpoints, this one from step {step}: "
                "model_dir must be one folder that all of them see."
            )


class _ThrowingAway(v1.train.CheckpointSaverHook):
    """Takes part in the chief's saving, and keeps nothing."""

    def __init__(self, scaffold, steps, secs):
        self._folder = tempfile.TemporaryDirectory()
        listeners = [_Delete(self._folder.name)]
        super().__init__(self._folder.name, secs, steps, scaffold=scaffold, listeners=listeners, save_graph_def=False)

    def end(self, session):
        super().end(session)
        self._folder.cleanup()


class _Delete(v1.train.CheckpointSaverListener):
    def __init__(self, folder):
        self._folder = folder

    def after_save(self, session, global_step_value):
        for path in Path(self._folder).glob("model.ckpt-*"):
            path.unlink()


class _AgreedTimer(v1.train.SecondOrStepTimer):
    """Triggers in all processes at the same step, the one after that which ended when the chief's time was up."""

    def __init__(self, secs):
        super().__init__(every_secs=secs)
        self.is_up = self.is_agreed = False

    def should_trigger_for_step(self, step):
        self.is_up = super().should_trigger_for_step(step)
        return self.is_agreed

    def update_last_triggered_step(self, step):
        self.is_up = self.is_agreed = False
        return super().update_last_triggered_step(step)


class _Agreement(v1.train.SessionRunHook):
    """The last hook of every process: after each step they tell each other whether to stop and to save."""

    def __init__(self, config, sums, timer):
        self._is_chief = config.is_chief
        self._sums = sums
        self._timer = timer

    def after_run(self, run_context, run_values):
        stop, save = self._sums(run_context.stop_requested, self._is_chief and self._timer and self._timer.is_up)
        if stop:
            run_context.request_stop()
        if save:
            self._timer.is_agreed = True

    def end(self, session):
        self._sums(0)  # nobody looks for the last checkpoint before the chief has written it
