"""Private names of TensorFlow that this package uses, each behind a function."""

import contextlib

import tensorflow as tf

from estimator_train._engine.libraries import private_names_of


@private_names_of("tensorflow")
def eager_mode() -> contextlib.AbstractContextManager[None]:
    """Returns a context manager for eager mode inside a v1 graph, where tf.init_scope() does not suffice."""
    return tf.__internal__.eager_context.eager_mode()


@private_names_of("tensorflow")
def global_step_read() -> tf.Tensor:
    """Returns the tensor that TensorFlow's hooks fetch for the default graph's global step; creates it if needed."""
    # The function that creates it and the name of its collection are private, but a hook reveals it.
    hook = tf.compat.v1.train.StopAtStepHook(num_steps=1)
    hook.begin()
    return hook.before_run(None).fetches


@private_names_of("tensorflow")
def set_timer(hook: tf.compat.v1.train.SessionRunHook, timer: tf.compat.v1.train.SecondOrStepTimer) -> None:
    """Replaces the timer of a CheckpointSaverHook or StepCounterHook, whose constructor does not accept one."""
    hook._timer = timer


@private_names_of("tensorflow")
def share_event_writer(directory: str, spelling: str) -> None:
    """Makes the FileWriterCache return the writer of `directory` for another spelling of its path as well."""
    cache = tf.compat.v1.summary.FileWriterCache
    with cache._lock:
        cache._cache[spelling] = cache.get(directory)


@private_names_of("tensorflow")
def last_step(hook: tf.compat.v1.train.StopAtStepHook) -> int | None:
    """Returns the global step at which a StopAtStepHook stops; None for one with num_steps until it has a session."""
    return hook._last_step
