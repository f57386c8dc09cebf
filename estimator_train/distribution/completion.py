"""How the tasks of a cluster tell each other that training has ended, and how.

The chief and the workers each leave a marker, a file in model_dir, when they end. The evaluator, the parameter servers
and the workers watch for the markers and end, too.
"""

from __future__ import annotations

import contextlib
import os
import time

import tensorflow as tf

from estimator_train.distribution.cluster_task import TaskType
from estimator_train.distribution.synchronous import LostWorkerError
from estimator_train.host.files import write_whole

log = tf.get_logger()

_STALE_SECS = 600.0  # how long a chief that ended before this task started may take to come back
_DONE, _FAILED = "done", "failed"


class FailedChiefError(RuntimeError):
    """The chief has ended before the training has."""


def marking_completion(config):
    """A context manager for the training of a process without other training tasks; an evaluator may watch it."""
    if not config.cluster_spec:
        return contextlib.nullcontext()
    markers = CompletionMarkers(config)
    markers.clear()
    return markers.mark_on_exit()


class CompletionMarkers:
    """The files by which the chief and the workers tell that they have ended, and how."""

    def __init__(self, config):
        self._directory = os.path.join(config.model_dir, "ended")
        self._own_marker = os.path.join(self._directory, _marker(config.task_type, config.task_id, config.is_chief))
        self._chief_marker = os.path.join(self._directory, TaskType.CHIEF)
        self._all_markers = _training_markers(config.cluster_spec)
        self._start_time = time.time()

    def clear(self):
        """Removes the marker that an earlier run of this task left."""
        if tf.io.gfile.exists(self._own_marker):
            tf.io.gfile.remove(self._own_marker)

    @contextlib.contextmanager
    def mark_on_exit(self):
        """Records on exit whether the block succeeded or failed.

        A LostWorkerError is not recorded: both this task and the lost one will be started again.
        """
        try:
            yield
        except LostWorkerError:
            raise
        except BaseException:
            self._mark(_FAILED)
            raise
        self._mark(_DONE)

    def chief_done(self):
        """Whether the chief has ended.

        A marker that is older than this task may be of an earlier run: the chief clears it if it starts again. So it
        counts only when the chief has had the time to do so.
        """
        outcome, end_time = self._read_chief_marker()
        if outcome is None:
            return False
        if end_time >= self._start_time:
            return True
        if time.time() < self._start_time + _STALE_SECS:
            return False
        log.warning("The chief had ended before this task began, and has not come back in %d secs.", _STALE_SECS)
        return True

    def check_chief(self):
        """Raises FailedChiefError if the chief has ended by failing."""
        if not self.chief_done():
            return
        outcome, _ = self._read_chief_marker()
        if outcome == _FAILED:
            raise FailedChiefError(
                "TF_CONFIG's chief has failed or was stopped; its log says why. Start all tasks again: training "
                "goes on from the last checkpoint."
            )

    def all_done(self):
        """Whether the chief and all workers have ended. There must be a marker."""
        return self._all_markers <= set(tf.io.gfile.listdir(self._directory))

    def _mark(self, outcome):
        tf.io.gfile.makedirs(self._directory)
        # The time is in it because TensorFlow gives a file's in whole seconds.
        write_whole(self._own_marker, f"{outcome} {time.time()}")

    def _read_chief_marker(self):
        """How the chief has ended, and the Unix time then, in seconds; (None, 0.0) while it has not."""
        try:
            with tf.io.gfile.GFile(self._chief_marker) as file:
                outcome, _, end_time = file.read().partition(" ")
        except tf.errors.NotFoundError:
            return None, 0.0
        return outcome, float(end_time or 0)  # earlier versions wrote no time


def _training_markers(cluster_spec):
    """The names of the markers of all tasks that train."""
    jobs = [job for job in cluster_spec.jobs if job not in (TaskType.PS, TaskType.EVALUATOR)]
    has_chief_job = {TaskType.CHIEF: True, TaskType.MASTER: True, TaskType.WORKER: len(jobs) == 1}
    return {
        _marker(job, index, is_chief=has_chief_job[job] and index == 0)
        for job in jobs
        for index in cluster_spec.task_indices(job)
    }


def _marker(task_type, task_id, is_chief):
    return TaskType.CHIEF if is_chief else f"{task_type}-{task_id}"
