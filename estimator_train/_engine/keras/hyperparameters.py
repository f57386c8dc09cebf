"""Stores an optimizer's hyperparameters in checkpoints: the current values and the compiled ones."""

import tensorflow as tf

from estimator_train._engine.checkpoints import private_tensorflow


class Hyperparameters:
    """The hyperparameters of a model's optimizer that are variables, such as its learning rate.

    They are saved separately from the model, so that a model that loads the weights keeps its compiled learning rate.
    """

    def __init__(self, variables: dict[str, tf.Variable]) -> None:
        """`variables` is a dict from hyperparameters' names to their TensorFlow variables, with the compiled values."""
        self._current = variables
        self._compiled = {name: float(variable.numpy()) for name, variable in variables.items()}
        self._compiled_before = {
            name: tf.Variable(value, trainable=False, name=f"compiled_{name}") for name, value in self._compiled.items()
        }
        self.saved = {}  # more values for the checkpoints of a training, by name
        if variables:
            self.saved = {
                "estimator_hyperparameters": self._current,
                "estimator_compiled_hyperparameters": self._compiled_before,
            }

    def leave_out_of(self, root: object) -> None:
        """Excludes the values from checkpoints of the trackable object `root`; may be called again."""
        ids = {id(variable) for variable in self._current.values()}
        for part in list(tf.train.TrackableView(root).descendants()):
            if not ids.isdisjoint(map(id, tf.train.TrackableView.children(part).values())):
                private_tensorflow.leave_out_of_checkpoints(part, self._current.values())

    def follow_compile(self) -> None:
        """Sets the values, just restored, with which the model is now compiled otherwise than before."""
        for name, value in self._compiled.items():
            before = float(self._compiled_before[name].numpy())
            if before != value:
                tf.get_logger().info(
                    "The model is compiled with %s %g, but the checkpoint's with %g; training continues with %g.",
                    *(name, value, before, value),
                )
                self._current[name].assign(value)
                self._compiled_before[name].assign(value)
