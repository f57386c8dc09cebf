"""What checkpoints keep of an optimizer's hyperparameters: their values, and those that the model was compiled with."""

from __future__ import annotations

import contextlib

import tensorflow as tf

from estimator_train.session import private_names

log = tf.get_logger()


class Hyperparameters:
    """The hyperparameters of a model's optimizer that are variables, such as its learning rate.

    They are saved beside the model: a model that loads the weights keeps the learning rate that it is compiled with.

    Attributes:
      saved: dict of names to what a `tf.train.Checkpoint` of the model's training saves besides.
    """

    def __init__(self, model):
        self._current = private_names.hyperparameters(model.optimizer)
        self._compiled = {name: float(variable.numpy()) for name, variable in self._current.items()}
        self._compiled_before = {
            name: tf.Variable(value, trainable=False, name=f"compiled_{name}") for name, value in self._compiled.items()
        }
        self._optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        self.saved = {}
        if self._current:
            private_names.leave_out_of_checkpoints(self._optimizer, self._current.values())
            self.saved = {
                "estimator_hyperparameters": self._current,
                "estimator_compiled_hyperparameters": self._compiled_before,
            }

    @contextlib.contextmanager
    def restoring(self, besides):
        """Around a restore: a value that the model is compiled with another of now is replaced by that.

        `besides`: what of `saved` the checkpoint has; those of earlier versions have the values in the optimizer alone.
        """
        is_saved = besides.keys() >= self.saved.keys()
        with contextlib.nullcontext() if is_saved else private_names.taking_all_of_checkpoints(self._optimizer):
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
