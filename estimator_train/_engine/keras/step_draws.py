"""StepDraws: the position of a training, from which its steps draw their random numbers."""

import contextlib

import tensorflow as tf


class StepDraws:
    """Random numbers of a training's steps that are the same after a resume as without one.

    The layers of Keras 3 need no more than this, because checkpoints contain the state of their random generators;
    `tf_keras.layer_draws.LayerDraws` serves those of tf_keras.
    """

    def __init__(self, trained_examples: tf.Variable, run_seed: tf.Variable) -> None:
        self._trained_examples = trained_examples  # int64, over all replicas
        self._run_seed = run_seed  # int64, of the run's random changes

    def position(self) -> tf.Tensor:
        """Returns (the run's seed, the examples trained on before, the replica's number), int64 of shape (3,)."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.stack([self._run_seed, self._trained_examples, tf.cast(replica, tf.int64)])

    def installed(self) -> contextlib.AbstractContextManager[None]:
        """Wraps the code that traces the step of all replicas."""
        return contextlib.nullcontext()

    def begin(self, position: tf.Tensor) -> None:
        """Marks the beginning of a replica's step in its graph, at its `position`."""


def seed_at(position: tf.Tensor) -> tf.Tensor:
    """Returns the seed of a step from the result of `StepDraws.position`, int64 of shape (2,)."""
    return tf.random.fold_in(position[:2], position[2])
