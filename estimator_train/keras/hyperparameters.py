"""An optimizer's hyperparameters in checkpoints: their current values, and the values that were compiled."""

from __future__ import annotations

import contextlib

import tensorflow as tf

from estimator_train.session import private_names

log = tf.get_logger()


class Hyperparameters:
    """The hyperparameters of a model's optimizer that are variables, such as its learning rate.

    They are saved next to the model: a model that loads the weights keeps the learning rate it was compiled with.

    Attributes:
      saved: dict of names to what a `tf.train.Checkpoint` of the model's training saves besides.
    """

    def __init__(self, variables):
        """`variables`: dict of the hyperparameters' names to TensorFlow's variables, which have the compiled values."""
        self._current = variables
        self._compiled = {name: float(variable.numpy()) for name, variable in variables.items()}
        self._compiled_before = {
            name: tf.Variable(value, trainable=False, name=f"compiled_{name}") for name, value in self._compiled.items()
        }
        self._holders = []  # the parts of what is saved that have the variables
        self.saved = {}
        if variables:
            self.saved = {
                "estimator_hyperparameters": self._current,
                "estimator_compiled_hyperparameters": self._compiled_before,
            }

    def leave_out_of(self, root):
        """Makes checkpoints of what is below `root`, a trackable object, leave the values out; may be called again."""
        ids = {id(variable) for variable in self._current.values()}
        for part in list(tf.train.TrackableView(root).descendants()):
            if not ids.isdisjoint(map(id, tf.train.TrackableView.children(part).values())):
                private_names.leave_out_of_checkpoints(part, self._current.values())
                self._holders.append(part)

    @contextlib.contextmanager
    def restoring(self, besides):
        """Around a restore: a value that the model is compiled with another of now is replaced by that.

        `besides`: what of `saved` the checkpoint has; those of earlier versions have the values in the optimizer alone.
        """
        is_saved = besides.keys() >= self.saved.keys()
        with contextlib.ExitStack() as stack:
            for holder in () if is_saved else self._holders:
                stack.enter_context(private_names.taking_all_of_checkpoints(holder))
            yield
        for name, value in self._compiled.items():
            before = float(self._compiled_before[name].numpy())
            if before != value:
                log.info(
                    "The model is compiled with %s %g, the checkpoint's was with %g: training goes on with %g.",
                    *(name, value, before, value),
                )
                self._current[name].assign(value)
                self._compiled_before[name].assign(value)
