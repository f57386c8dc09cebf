"""Each private name of Keras, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.checkpoints import private_keras


def test_a_legacy_optimizer_makes_its_variables_before_the_first_update():
    """Checkpoints of tf.estimator could not be read into a model with one: the slots would not be there yet."""
    optimizer = keras.optimizers.legacy.Adam()
    variable = tf.Variable([1.0])
    private_keras.build_legacy_optimizer(optimizer, [variable])
    assert optimizer.get_slot(variable, "m").shape == [1]
    assert len(optimizer.weights) == 3  # with the count of updates


def test_the_list_of_an_optimizers_variables():
    """Slots of other frozen layers would be read by their place in the list, into variables of others."""
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build([tf.Variable(1.0)])
    parts = tf.train.TrackableView.children(optimizer)
    listed = tf.train.TrackableView.children(private_keras.listed_variables(parts))
    assert set(map(id, optimizer.variables)) == set(map(id, listed.values()))
    assert private_keras.listed_variables({}) is None


@pytest.mark.parametrize("rate", [0.25, keras.optimizers.schedules.ExponentialDecay(0.25, 1, 0.5)])
def test_learning_rates_that_a_checkpoint_need_not_have(tmp_path, rate):
    """Training could not continue with a schedule instead of a rate, nor evaluation run without its schedule."""
    optimizer = keras.optimizers.SGD(rate)
    (name,) = {"_learning_rate", "_current_learning_rate"} & tf.train.TrackableView.children(optimizer).keys()
    without = tf.train.Checkpoint(_iterations=optimizer.iterations).write(str(tmp_path / "without"))
    with pytest.raises(AssertionError, match="learning_rate"):
        tf.train.Checkpoint(optimizer).read(without).assert_existing_objects_matched()
    with private_keras.without_optional_parts(optimizer):
        tf.train.Checkpoint(optimizer).read(without).assert_existing_objects_matched()
    assert name in tf.train.TrackableView.children(optimizer)
