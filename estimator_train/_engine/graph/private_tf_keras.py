"""Private names of tf_keras that this package uses, each behind a function."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tf_keras.src import backend
from tf_keras.src.saving import saving_lib

from estimator_train._engine.types import Session


def learning_rate_or_schedule(optimizer: Any) -> Any:
    """Returns the learning rate variable of a new Keras optimizer, or its schedule, which `learning_rate` lacks."""
    return optimizer._learning_rate


def legacy_step_variable(optimizer: Any) -> Any:
    """Returns the variable of a legacy Keras optimizer's `iterations`, or None before it has one."""
    return optimizer._iterations


def set_legacy_step_variable(optimizer: Any, variable: Any) -> None:
    """Replaces the variable of a legacy Keras optimizer's `iterations`, which can be set only once publicly."""
    optimizer._iterations = variable


@contextlib.contextmanager
def running_in(session: Session) -> Iterator[None]:
    """A context manager in which Keras uses a `KerasSession` for its graph in this thread; if it does, it keeps it."""
    before = backend._SESSION.session
    backend._SESSION.session = session
    try:
        yield
    finally:
        if not session.is_open:
            backend._SESSION.session = before


def loads_not_run(graph: tf.Graph) -> list[tf.Operation]:
    """Returns the ops of a v1 graph that assign weights from a .keras or .weights.h5 file, which Keras does not run."""
    parts_of = tf.distribute.get_strategy().experimental_local_results
    variables = graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
    initializers = {part.initializer for variable in variables for part in parts_of(variable)}
    return [
        op
        for op in graph.get_operations()
        if op.type == "AssignVariableOp"
        and op not in initializers  # loading creates these, too, and those of zeros have a constant
        and op.inputs[1].op.type == "Const"
        and any(frame.filename == saving_lib.__file__ for frame in op.traceback)
    ]
