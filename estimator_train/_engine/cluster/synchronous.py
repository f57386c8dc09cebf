"""Synchronous training in several processes, the workers of a MultiWorkerMirroredStrategy.

Every process runs the same loop, and the strategy's collective ops keep the loops at the same step. If one process
stops, all of them must. All save when the chief does, because saving aggregates values that differ between replicas,
such as BatchNorm statistics; the other processes delete the files that they save.
"""

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import tensorflow as tf

from estimator_train._engine.host.interruption import Terminated, interruption
from estimator_train._engine.remedies import InterruptedRunError
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train._engine.session.timer import StepTimer
from estimator_train._engine.types import Session, SessionRunContext, SessionRunHook, SessionRunValues

Sums: TypeAlias = Callable[..., list[int]]  # the result of `summing`


class LostWorkerError(InterruptedRunError):
    """Another process of the cluster is gone, so this one cannot continue."""


def spans_workers(strategy: tf.distribute.Strategy | None) -> bool:
    """Returns whether `strategy`, which may be None, trains synchronously in the processes of a cluster."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return False
    return bool(strategy.cluster_resolver.cluster_spec())


@contextlib.contextmanager
def explaining_lost_worker(strategy: tf.distribute.Strategy | None) -> Iterator[None]:
    """Converts TensorFlow's errors to LostWorkerError if a process of `strategy` is gone."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        if not spans_workers(strategy):
            raise
        tasks = sorted(set(re.findall(r"/job:(\w+)/replica:\d+/task:(\d+)", str(error))))
        gone = ", ".join(" ".join(task) for task in tasks) or f"a task ({str(error).splitlines()[0]})"
        # Not TensorFlow's own error, from which MonitoredSession would try to recover with a new session.
        raise LostWorkerError(
            f"TF_CONFIG's cluster has lost {gone}. Start that task and this one again; training resumes from the last "
            "checkpoint."
        ) from error


def summing(strategy: tf.distribute.Strategy) -> Sums:
    """Returns a function that sums each of its arguments, ints or bools, over replicas; all processes must call it."""
    total = _total(strategy)

    def sums(*values: int | None) -> list[int]:
        with eager_mode(), explaining_lost_worker(strategy):
            return total(tf.constant([int(value or 0) for value in values], tf.int64)).numpy().tolist()

    return sums


@functools.lru_cache(maxsize=1)
def _total(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that sums vectors over replicas; kept, because TensorFlow warns of functions made again."""

    @tf.function
    def total(values: tf.Tensor) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(values,)), axis=None)

    return total


def last_sums(sums: Sums, *values: int | None) -> list[int]:
    """Returns `sums(*values)`, after which any process may end.

    One that ends at once takes with it what the others have yet to receive. All therefore wait for all again; whoever
    is gone by then had nothing left to do.
    """
    result = sums(*values)
    with contextlib.suppress(LostWorkerError):
        sums(0)
    return result


def agreed(config: RunConfig, value: int) -> int:
    """Returns the chief's `value`, an int, in every process that trains with the `RunConfig` `config`."""
    if not spans_workers(config.train_distribute):
        return value
    total, replicas = summing(config.train_distribute)(value if config.is_chief else 0, config.is_chief)
    return total // replicas


def check_hooks(user_hooks: Iterable[SessionRunHook]) -> None:
    if any(isinstance(hook, tf.compat.v1.train.CheckpointSaverHook) for hook in user_hooks):
        raise ValueError(
            "Under MultiWorkerMirroredStrategy, all processes must save at the same step, but a CheckpointSaverHook "
            "in hooks saves on its own; remove it and set save_checkpoints_steps or save_checkpoints_secs of "
            "RunConfig."
        )


class SameStartHook(SessionRunHook):
    """Checks that all processes start from the same step; it is the first hook and runs before anything is saved."""

    def __init__(self, strategy: tf.distribute.Strategy, sums: Sums) -> None:
        self._replicas = strategy.num_replicas_in_sync
        self._sums = sums
        self._global_step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        step = int(session.run(self._global_step))
        if self._sums(step, step**2) != [step * self._replicas, step**2 * self._replicas]:
            raise ValueError(
                f"The processes of TF_CONFIG's cluster start from different checkpoints, this one from step {step}: "
                "model_dir must be a directory that they share."
            )


class AgreedTimer(StepTimer):
    """Triggers in all processes at the same step, one step after the chief's interval has elapsed."""

    def __init__(self, every_secs: float) -> None:
        super().__init__(every_secs=every_secs)
        self.is_up = self.is_agreed = False

    def should_trigger_for_step(self, step: int) -> bool:
        self.is_up = super().should_trigger_for_step(step)
        return self.is_agreed

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        self.is_up = self.is_agreed = False
        return super().update_last_triggered_step(step)


class Agreement:
    """Makes workers stop and save at the same step: each call of the compiled loop starts by summing their wishes.

    The loop runs no step if any worker wants to stop. That worker has to call the loop once more to tell the others.
    """

    def __init__(self, config: RunConfig) -> None:
        self.stops = False  # whether this process wants to stop
        self.timer: AgreedTimer | None = None  # of the saver hook, if checkpoints are saved by time
        if config.save_checkpoints_secs:
            self.timer = AgreedTimer(config.save_checkpoints_secs)
        self._is_chief = config.is_chief

    def wishes(self) -> list[int]:
        """Returns two ints: whether this process wants to stop, and whether to save after the next steps."""
        return [int(self.stops), int(self._is_chief and self.timer is not None and self.timer.is_up)]

    def save(self) -> None:
        """Makes the saver hook save after the steps that have just run."""
        if self.timer is not None:
            self.timer.is_agreed = True


class StopTogetherHook(SessionRunHook):
    """Stops all processes after the same step if an earlier hook requests a stop in this one; it is the last hook.

    If one of them gets SIGTERM, which `interruption.deferred` must hold back, all end with `Terminated`, once saved.
    """

    def __init__(self, agreement: Agreement, train_op: tf.Operation | tf.Tensor, sums: Sums) -> None:
        self._agreement = agreement
        self._train_op = train_op
        self._sums = sums

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if interruption.is_due:
            run_context.request_stop()
        if run_context.stop_requested:
            self._agreement.stops = True
            with contextlib.suppress(tf.errors.OutOfRangeError):  # raised because no step was run
                run_context.session.run(self._train_op)

    def end(self, session: Session) -> None:
        if any(last_sums(self._sums, interruption.is_due)):  # waits until the chief has written the last checkpoint
            raise Terminated
