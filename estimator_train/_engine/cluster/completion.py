"""Signals between the tasks of a cluster whether training has ended, and with what outcome."""

import contextlib
import os
import time
from collections.abc import Iterator

import tensorflow as tf

from estimator_train._engine.cluster.synchronous import LostWorkerError
from estimator_train._engine.host.cluster_task import TaskType
from estimator_train._engine.host.files import write_whole
from estimator_train._engine.remedies import InterruptedRunError
from estimator_train._engine.run_config import RunConfig

log = tf.get_logger()

_STALE_SECS = 600.0  # how long to wait for the restart of a chief that ended before this task started
_DONE, _FAILED = "done", "failed"


def marking_completion(config: RunConfig) -> contextlib.AbstractContextManager[None]:
    """Returns a context manager that marks completion of a single training process, for which an evaluator may wait."""
    if not config.cluster_spec:
        return contextlib.nullcontext()
    markers = CompletionMarkers(config)
    markers.clear()
    return markers.mark_on_exit()


class CompletionMarkers:
    """The files in which the chief and the workers record that they have ended, and with what outcome."""

    def __init__(self, config: RunConfig) -> None:
        self._directory = os.path.join(config.model_dir, "ended")
        self._own_marker = os.path.join(self._directory, _marker(config.task_type, config.task_id, config.is_chief))
        self._chief_marker = os.path.join(self._directory, TaskType.CHIEF)
        self._all_markers = _training_markers(config.cluster_spec)
        self._start_time = time.time()

    def clear(self) -> None:
        """Removes the marker that an earlier run of this task left."""
        if tf.io.gfile.exists(self._own_marker):
            tf.io.gfile.remove(self._own_marker)

    @contextlib.contextmanager
    def mark_on_exit(self) -> Iterator[None]:
        """Records on exit whether the block succeeded, unless another task is lost: both will be started again."""
        try:
            yield
        except LostWorkerError:
            raise
        except BaseException:
            self._mark(_FAILED)
            raise
        self._mark(_DONE)

    def chief_done(self) -> bool:
        """Returns whether the chief has ended."""
        outcome, end_time = self._read_chief_marker()
        if outcome is None:
            return False
        if end_time >= self._start_time:
            return True
        # The marker may come from an earlier run. A chief that is restarted, too, deletes it in time.
        if time.time() < self._start_time + _STALE_SECS:
            return False
        log.warning("The chief ended before this task started, and has not restarted within %d secs.", _STALE_SECS)
        return True

    def check_chief(self) -> None:
        """Raises InterruptedRunError if the chief has failed."""
        if self.chief_done() and self._read_chief_marker()[0] == _FAILED:
            raise InterruptedRunError(
                "TF_CONFIG's chief has failed or was stopped; its log says why. Start all tasks again; training "
                "resumes from the last checkpoint."
            )

    def all_done(self) -> bool:
        """Returns whether the chief and all workers have ended; call it only if there is at least one marker."""
        return self._all_markers <= set(tf.io.gfile.listdir(self._directory))

    def _mark(self, outcome: str) -> None:
        tf.io.gfile.makedirs(self._directory)
        # The file contains the time because TensorFlow's file times are in whole seconds.
        write_whole(self._own_marker, f"{outcome} {time.time()}")

    def _read_chief_marker(self) -> tuple[str | None, float]:
        """Returns the chief's outcome and the Unix time of its end in seconds; (None, 0.0) if it has not ended."""
        try:
            with tf.io.gfile.GFile(self._chief_marker) as file:
                outcome, _, end_time = file.read().partition(" ")
        except tf.errors.NotFoundError:
            return None, 0.0
        return outcome, float(end_time)


def _training_markers(cluster_spec: tf.train.ClusterSpec) -> set[str]:
    jobs = [job for job in cluster_spec.jobs if job not in (TaskType.PS, TaskType.EVALUATOR)]
    has_chief_job = {TaskType.CHIEF: True, TaskType.MASTER: True, TaskType.WORKER: len(jobs) == 1}
    return {
        _marker(job, index, is_chief=has_chief_job[job] and index == 0)
        for job in jobs
        for index in cluster_spec.task_indices(job)
    }


def _marker(task_type: str, task_id: int, is_chief: bool) -> str:
    return TaskType.CHIEF if is_chief else f"{task_type}-{task_id}"
