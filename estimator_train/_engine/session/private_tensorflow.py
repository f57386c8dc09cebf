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


@private_names_of("tensorflow")
def timer(hook: tf.compat.v1.train.SessionRunHook) -> tf.compat.v1.train.SecondOrStepTimer:
    """Returns the timer of a stock hook that has one."""
    return hook._timer


@private_names_of("tensorflow")
def every_steps(timer: tf.compat.v1.train.SecondOrStepTimer) -> int | None:
    """Returns after how many steps a stock timer triggers; None if it counts seconds, or never does."""
    return getattr(timer, "_every_steps", None)


@private_names_of("tensorflow")
def requests_summary(hook: tf.compat.v1.train.SessionRunHook) -> bool:
    """Returns whether a SummarySaverHook or ProfilerHook has asked in `before_run` for more than the global step."""
    return getattr(hook, "_request_summary", True)  # before the first step


@private_names_of("tensorflow")
def logs_now(hook: tf.compat.v1.train.LoggingTensorHook) -> bool:
    """Returns whether a LoggingTensorHook has asked in `before_run` for what it logs."""
    return getattr(hook, "_should_trigger", True)  # before the first step


@private_names_of("tensorflow")
def calls_counted(hook: tf.compat.v1.train.LoggingTensorHook) -> int:
    """Returns how many calls a LoggingTensorHook has counted, which it takes for steps."""
    return hook._iter_count


@private_names_of("tensorflow")
def add_calls(hook: tf.compat.v1.train.LoggingTensorHook, count: int) -> None:
    """Adds to the calls that a LoggingTensorHook has counted."""
    hook._iter_count += count


@private_names_of("tensorflow")
def logs_at_end(hook: tf.compat.v1.train.LoggingTensorHook) -> bool:
    """Returns whether a LoggingTensorHook runs what it logs once more at the end."""
    return hook._log_at_end


@private_names_of("tensorflow")
def watched_tensor(hook: tf.compat.v1.train.NanTensorHook) -> tf.Tensor | str:
    """Returns the tensor that a NanTensorHook checks, or its name."""
    return hook._loss_tensor
