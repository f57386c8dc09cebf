"""Private names of tf_keras that this package uses, each behind a function."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_train._engine.libraries import private_names_of
from estimator_train._engine.types import Session


@private_names_of("tf_keras")
def learning_rate_or_schedule(optimizer: Any) -> Any:
    """Returns the learning rate variable of a new Keras optimizer, or its schedule, which `learning_rate` lacks."""
    return optimizer._learning_rate


@private_names_of("tf_keras")
def legacy_step_variable(optimizer: Any) -> Any:
    """Returns the variable of a legacy Keras optimizer's `iterations`, or None before it has one."""
    return optimizer._iterations


@private_names_of("tf_keras")
def set_legacy_step_variable(optimizer: Any, variable: Any) -> None:
    """Replaces the variable of a legacy Keras optimizer's `iterations`, which can be set only once publicly."""
    optimizer._iterations = variable


@contextlib.contextmanager
@private_names_of("tf_keras")
def running_in(session: Session) -> Iterator[None]:
    """A context manager in which Keras uses a `KerasSession` for its graph in this thread; if it does, it keeps it."""
    from tf_keras.src import backend

    before = backend._SESSION.session
    backend._SESSION.session = session
    try:
        yield
    finally:
        if not session.is_open:
            backend._SESSION.session = before


@private_names_of("tf_keras")
def is_of_loading(op: tf.Operation) -> bool:
    """Returns whether Keras has created an op of a v1 graph while it was loading a .keras or .weights.h5 file."""
    from tf_keras.src.saving import saving_lib

    return any(frame.filename == saving_lib.__file__ for frame in op.traceback)
