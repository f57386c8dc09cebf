"""train_and_evaluate as one process of a TF_CONFIG cluster.

The chief and the workers train: in step, by a MultiWorkerMirroredStrategy, or asynchronously, each with a graph of its
own, on variables that parameter servers hold. The chief alone writes checkpoints and summaries, and the evaluator
evaluates and exports them. They meet in model_dir, where the chief and the workers leave a file each when they end,
however they do: then the others end, too.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time

import tensorflow as tf

from estimator_train.distribution import synchronous
from estimator_train.run_config import TaskType

v1 = tf.compat.v1
log = tf.get_logger()

_POLL_SECS = 1.0
_GRACE_SECS = 60.0  # how long parameter servers wait for workers after the chief has ended
_OLD_SECS = 600.0  # how long a chief that ended before this task began may take to come back
_DONE, _FAILED = "done", "failed"
_WORKER_DELAY_SECS, _MAX_WORKER_DELAY_SECS = 5, 60  # tf.estimator's: asynchronous training starts staggered


class FailedChiefError(RuntimeError):
    """The chief has ended before the training has."""


def in_cluster(config):
    """Whether a `RunConfig` is that of one process among several."""
    return config.task_type == TaskType.EVALUATOR or config.num_worker_replicas > 1 or config.num_ps_replicas > 0


def run_task(config, train, evaluate, start_delay_secs):
    """Does what this process's task is, until training has ended.

    Args:
      config: the `RunConfig`.
      train: function of a list of hooks that are added to the training.
      evaluate: function of a bool, whether training has ended, that evaluates the newest checkpoint, if that is due,
        and tells whether it was the last.
      start_delay_secs: seconds that the evaluator waits at first.

    Raises:
      ValueError: there cannot be such a task, or it cannot listen at its address.
      FailedChiefError: all tasks are to be started again.
    """
    ended = CompletionMarkers(config)
    if config.task_type == TaskType.EVALUATOR:
        if config.task_id > 0:
            raise ValueError(f"TF_CONFIG's task is evaluator {config.task_id}; there can be one, with index 0.")
        log.info("Waiting %f secs before starting eval.", start_delay_secs)
        time.sleep(start_delay_secs)
        while not evaluate(ended.chief()):
            time.sleep(_POLL_SECS)
        ended.check_chief()
        return
    in_step = synchronous.spans_workers(config.train_distribute)
    if not in_step:
        server = _start_server(config)
        if config.task_type == TaskType.PS:
            _serve(server, ended)
            ended.check_chief()
            return
    ended.forget()
    if not in_step:
        _wait_before_training(config)
    with ended.told():
        train([] if config.is_chief or in_step else [_StopWithChief(ended)])
        if not config.is_chief:
            ended.check_chief()


def telling_when_ended(config):
    """Around the training of a process that is a cluster on its own: an evaluator beside it is told of its end."""
    if not config.cluster_spec:
        return contextlib.nullcontext()
    ended = CompletionMarkers(config)
    ended.forget()
    return ended.told()


class CompletionMarkers:
    """The files by which the tasks that train tell that they have ended, and how."""

    def __init__(self, config):
        self._folder = os.path.join(config.model_dir, "ended")
        self._own = os.path.join(self._folder, _name(config.task_type, config.task_id, config.is_chief))
        cluster = config.cluster_spec
        jobs = [job for job in cluster.jobs if job not in (TaskType.PS, TaskType.EVALUATOR)]
        is_chief = {TaskType.CHIEF: True, TaskType.MASTER: True, TaskType.WORKER: len(jobs) == 1}
        self._trainers = {_name(job, i, is_chief[job] and i == 0) for job in jobs for i in cluster.task_indices(job)}
        self._began = time.time()

    def forget(self):
        """Takes back what an earlier run of this task has told."""
        if tf.io.gfile.exists(self._own):
            tf.io.gfile.remove(self._own)

    @contextlib.contextmanager
    def told(self):
        """Tells how what is done inside has ended, unless it is because another task is lost: both will be back."""
        try:
            yield
        except synchronous.LostWorkerError:
            raise
        except BaseException:
            self._tell(_FAILED)
            raise
        self._tell(_DONE)

    def _tell(self, how):
        tf.io.gfile.makedirs(self._folder)
        with tf.io.gfile.GFile(self._own, "w") as file:
            file.write(how)

    def chief(self):
        """Whether the chief has ended. What an earlier one told counts once this one would have taken it back."""
        if not tf.io.gfile.exists(self._chief_file):
            return False
        told = tf.io.gfile.stat(self._chief_file).mtime_nsec / 1e9
        is_old = told < self._began
        if is_old and time.time() >= self._began + _OLD_SECS:
            log.warning("The chief had ended before this task began, and has not come back in %d secs.", _OLD_SECS)
        return not is_old or time.time() >= self._began + _OLD_SECS

    def check_chief(self):
        """Raises FailedChiefError where the chief has ended by failing."""
        if not self.chief():
            return
        with tf.io.gfile.GFile(self._chief_file) as file:
            if file.read() == _FAILED:
                raise FailedChiefError(
                    "TF_CONFIG's chief has failed or was stopped; its log says why. Start all tasks again: training "
                    "goes on from the last checkpoint."
                )

    @property
    def _chief_file(self):
        return os.path.join(self._folder, TaskType.CHIEF)

    def all(self):
        """Whether every task that trains has ended."""
        return self._trainers <= set(tf.io.gfile.listdir(self._folder))


def _name(task_type, task_id, is_chief):
    return TaskType.CHIEF if is_chief else f"{task_type}-{task_id}"


class _StopWithChief(v1.train.SessionRunHook):
    """Stops a worker soon after the chief has ended: what it would train on is saved no more."""

    def __init__(self, ended):
        self._ended = ended
        self._timer = v1.train.SecondOrStepTimer(every_secs=2 * _POLL_SECS)
        self._runs = 0

    def after_run(self, run_context, run_values):
        self._runs += 1
        if self._timer.should_trigger_for_step(self._runs):
            self._timer.update_last_triggered_step(self._runs)
            if self._ended.chief():
                run_context.request_stop()


def _serve(server, ended):
    """Holds variables until the chief and the workers have ended, or the chief alone and a time after it."""
    while not ended.chief():
        time.sleep(_POLL_SECS)
    log.info("The chief has ended; waiting for the workers.")
    patience = time.monotonic() + _GRACE_SECS
    while not ended.all() and time.monotonic() < patience:
        time.sleep(_POLL_SECS)
    del server  # it has served until here


def check_address(place):
    """Raises ValueError where the task of `place`, a RunConfig or its ClusterPlace, cannot listen at its address."""
    with _explaining_bind_errors(place) as address, socket.socket() as probe:  # TensorFlow would share a port
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what a killed task has left does not count
        probe.bind(("", int(address.rpartition(":")[2])))


def _start_server(config):
    """The TensorFlow server of this task, listening.

    Raises:
      ValueError: its port is taken.
    """
    check_address(config)
    session_config = v1.ConfigProto()
    if config.session_config is not None:
        session_config.gpu_options.CopyFrom(config.session_config.gpu_options)
    with _explaining_bind_errors(config) as address:
        log.info("Starting the server of %s %s at %s.", config.task_type, config.task_id, address)
        return v1.train.Server(
            config.cluster_spec, config.task_type, config.task_id, protocol=config.protocol, config=session_config
        )


@contextlib.contextmanager
def _explaining_bind_errors(place):
    """Tells of the task of `place` and its address, which it gives, where what is done inside fails."""
    address = place.cluster_spec.task_address(place.task_type, place.task_id)
    try:
        yield address
    except (OSError, OverflowError, ValueError, tf.errors.OpError) as error:
        task = f"{place.task_type} {place.task_id}"
        raise ValueError(f"TF_CONFIG's {task} cannot listen at {address}: {error}; give it a free port.") from error


def _wait_before_training(config):
    if config.task_type != TaskType.WORKER:
        return
    longest = config.experimental_max_worker_delay_secs
    delay = min(_MAX_WORKER_DELAY_SECS if longest is None else longest, (config.task_id + 1) * _WORKER_DELAY_SECS)
    log.info("Waiting %d secs before starting training.", delay)
    time.sleep(delay)
