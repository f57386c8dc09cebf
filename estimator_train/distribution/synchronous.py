"""Synchronous training in several processes, the workers of a MultiWorkerMirroredStrategy.

Every process runs the same loop, and the strategy's collective ops keep the loops at the same step. So all processes
stop when one would. All save when the chief does, because saving aggregates the values that differ between replicas,
such as the statistics of BatchNorm; the other processes delete what they save.
"""

from __future__ import annotations

import contextlib
import re

import tensorflow as tf

from estimator_train.session.private_names import eager_mode

v1 = tf.compat.v1


class LostWorkerError(RuntimeError):
    """Another process of the cluster is gone, so this one cannot go on either."""


def spans_workers(strategy):
    """Whether `strategy`, which may be None, trains synchronously in the processes of a cluster."""
    is_multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return is_multi_worker and bool(strategy.cluster_resolver.cluster_spec())


@contextlib.contextmanager
def explaining_lost_worker(strategy):
    """Raises LostWorkerError for the errors that TensorFlow raises if a process of `strategy` is gone.

    MonitoredSession would try to recover from TensorFlow's errors with a new session.
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


def summed(strategy, values):
    """Sums the tensor `values` of every replica over all replicas of `strategy`; call in a tf.function."""
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(values,)), axis=None)


def summing(strategy):
    """Returns a function that sums ints or bools over the replicas of `strategy`; all its processes must call it.

    The function returns a list of ints, the sum of each argument, and raises LostWorkerError.
    """
    total = tf.function(lambda values: summed(strategy, values))

    def sums(*values):
        with eager_mode(), explaining_lost_worker(strategy):
            return total(tf.constant([int(value or 0) for value in values], tf.int64)).numpy().tolist()

    return sums


def agreed(config, value):
    """The chief's `value`, an int, in every process that trains by the `RunConfig` `config`."""
    if not spans_workers(config.train_distribute):
        return value
    total, replicas = summing(config.train_distribute)(value if config.is_chief else 0, config.is_chief)
    return total // replicas


def check_hooks(user_hooks):
    """Raises ValueError if there is a CheckpointSaverHook among `user_hooks`."""
    if any(isinstance(hook, v1.train.CheckpointSaverHook) for hook in user_hooks):
        raise ValueError(
            "Under MultiWorkerMirroredStrategy every process saves in step with the others, which a "
            "CheckpointSaverHook among the hooks does not; set save_checkpoints_steps or save_checkpoints_secs of "
            "RunConfig."
        )


class SameStartHook(v1.train.SessionRunHook):
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


class AgreedTimer(v1.train.SecondOrStepTimer):
    """Triggers in all processes at the same step, the one after that which ended when the chief's time was up."""

    def __init__(self, every_secs):
        super().__init__(every_secs=every_secs)
        self.is_up = self.is_agreed = False

    def should_trigger_for_step(self, step):
        self.is_up = super().should_trigger_for_step(step)
        return self.is_agreed

    def update_last_triggered_step(self, step):
        self.is_up = self.is_agreed = False
        return super().update_last_triggered_step(step)


class Agreement:
    """How workers stop and save at the same step: each call of the compiled loop begins with the sum of their wishes.

    The loop makes no step if one of them wishes to stop. The one that does has to call it once more, for the others.

    Attributes:
      stops: whether this process wishes to stop.
      timer: the `AgreedTimer` of the hook that saves; None: checkpoints are not saved by time.
    """

    def __init__(self, config):
        self.stops = False
        self.timer = AgreedTimer(config.save_checkpoints_secs) if config.save_checkpoints_secs else None
        self._is_chief = config.is_chief

    def wishes(self):
        """Whether this process wishes to stop, and whether to save after the next steps, as a list of two ints."""
        return [int(self.stops), int(self._is_chief and self.timer is not None and self.timer.is_up)]

    def save(self):
        """Has the hook that saves do so after the steps that were just made."""
        self.timer.is_agreed = True


class AgreementHook(v1.train.SessionRunHook):
    """The last hook of every process: if one before it asks to stop, it tells the other processes to stop, too."""

    def __init__(self, agreement, train_op, sums):
        self._agreement = agreement
        self._train_op = train_op
        self._sums = sums

    def after_run(self, run_context, run_values):
        if run_context.stop_requested:
            self._agreement.stops = True
            with contextlib.suppress(tf.errors.OutOfRangeError):  # says that no step was made
                run_context.session.run(self._train_op)

    def end(self, session):
        self._sums(0)  # nobody looks for the last checkpoint before the chief has written it
