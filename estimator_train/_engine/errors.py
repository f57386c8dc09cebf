"""Explains the errors that end a run: memory or a disk that is full, and a lost worker."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from estimator_train._engine.cluster.synchronous import explaining_lost_worker
from estimator_train._engine.host.full_disk import explaining_full_disk
from estimator_train._engine.host.paths import StrPath
from estimator_train._engine.session.out_of_memory import explaining_oom


@contextlib.contextmanager
def explaining_errors(directory: StrPath, strategy: tf.distribute.Strategy | None = None) -> Iterator[None]:
    """Converts TensorFlow's errors in a block that writes to `directory` to ones that say what to do."""
    with explaining_oom(), explaining_full_disk(directory), explaining_lost_worker(strategy):
        yield
