"""The old module `util`: extracts features and labels from the result of an input_fn."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimator_train._engine.input_fns.returned import as_pair as parse_iterator_result

v1 = tf.compat.v1


class MultiHostDatasetInitializerHook(tf.compat.v1.train.SessionRunHook):
    """Runs a list of ops that initialize datasets' iterators in every new session."""

    def __init__(self, dataset_initializers: Sequence[tf.Operation]) -> None:
        self._initializers = dataset_initializers

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        session.run(self._initializers)


def parse_input_fn_result(result: Any) -> tuple[Any, Any, list[tf.compat.v1.train.SessionRunHook]]:
    """Returns (features, labels, hooks) for the result of an input_fn; hooks initialize a dataset's iterator.

    Call it in the graph of the result.
    """
    hooks: list[tf.compat.v1.train.SessionRunHook] = []
    if isinstance(result, tf.data.Dataset):
        iterator = v1.data.make_initializable_iterator(result)
        hooks.append(MultiHostDatasetInitializerHook([iterator.initializer]))
        result = iterator.get_next()
    return *parse_iterator_result(result), hooks
