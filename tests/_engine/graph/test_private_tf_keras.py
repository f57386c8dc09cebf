"""Each private name of tf_keras, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.graph import private_tf_keras


def test_the_schedule_of_a_keras_optimizer():
    """In a model_fn the optimizer's legacy twin would train at the first learning rate of the schedule for good."""
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    assert private_tf_keras.learning_rate_or_schedule(keras.optimizers.Adam(schedule)) is schedule
    assert float(private_tf_keras.learning_rate_or_schedule(keras.optimizers.Adam(0.25))) == 0.25


def test_the_step_variable_of_a_legacy_optimizer_is_replaced():
    """The iterations of a given optimizer would not be the global step of its canned estimator."""
    optimizer = keras.optimizers.legacy.Adam()
    assert private_tf_keras.legacy_step_variable(optimizer) is None
    for step in (tf.Variable(1), tf.Variable(2)):
        private_tf_keras.set_legacy_step_variable(optimizer, step)
        assert optimizer.iterations is step is private_tf_keras.legacy_step_variable(optimizer)
