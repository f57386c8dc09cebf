"""The old module `util`: features and labels from what an input_fn has returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


class MultiHostDatasetInitializerHook(tf.compat.v1.train.SessionRunHook):
    """Runs ops that initialise datasets' iterators, a list, in every new session."""

    def __init__(self, dataset_initializers: Sequence[tf.Operation]) -> None:
        self._initializers = dataset_initializers

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        session.run(self._initializers)


def parse_input_fn_result(result: Any) -> tuple[Any, Any, list[tf.compat.v1.train.SessionRunHook]]:
    """(features, labels, hooks) of what an input_fn has returned, in the default graph; the hooks start a dataset.

    Raises:
      ValueError: a tuple or list of more or less than two.
    """
    hooks: list[tf.compat.v1.train.SessionRunHook] = []
    if isinstance(result, tf.data.Dataset):
        iterator = v1.data.make_initializable_iterator(result)
        hooks.append(MultiHostDatasetInitializerHook([iterator.initializer]))
        result = iterator.get_next()
    return *parse_iterator_result(result), hooks


def parse_iterator_result(result: Any) -> tuple[Any, Any]:
    """(features, labels) of a batch; labels are None where `result` is no tuple or list.

    Raises:
      ValueError: a tuple or list of more or less than two.
    """
    if not isinstance(result, (list, tuple)):
        return result, None
    if len(result) != 2:
        raise ValueError(f"input_fn should return (features, labels) as a len 2 tuple, got {len(result)}: {result!r}")
    return result[0], result[1]
