"""The part of tf.contrib.learn.monitors that takes hooks; monitors went with the Estimators of tf.contrib.learn."""

from collections.abc import Iterable

import tensorflow as tf

from estimator_train.estimator import Estimator


def replace_monitors_with_hooks(
    monitors_or_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None, estimator: Estimator
) -> list[tf.compat.v1.train.SessionRunHook]:
    """Returns the hooks as a list; `estimator` is ignored. Raises TypeError for what is no hook, such as a monitor."""
    hooks = list(monitors_or_hooks or ())
    for hook in hooks:
        if not isinstance(hook, tf.compat.v1.train.SessionRunHook):
            raise TypeError(f"{hook!r} is no tf.train.SessionRunHook; monitors are not supported, write a hook instead")
    return hooks
