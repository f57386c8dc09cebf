"""Each private name of TensorFlow that replicas need, used as in the package; docstrings say what breaks without it."""

import tensorflow as tf

from estimator_train._engine.distribution import private_tensorflow


def test_strategies_over_different_cpus_in_one_process():
    """The second would fail by the number of its devices, and the third by the shape of its tensors."""

    def sum_of_ones(count, shape):
        strategy = tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(count)])
        private_tensorflow.own_collectives(strategy)
        ones = strategy.run(tf.function(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones(shape))))
        return strategy.experimental_local_results(ones)[0].numpy().tolist()

    assert [sum_of_ones(2, []), sum_of_ones(3, []), sum_of_ones(2, [2])] == [2, 3, [2, 2]]


def test_reductions_that_the_user_has_chosen_are_kept():
    """A strategy would not reduce as its user asked."""
    reduction = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=reduction)
    private_tensorflow.own_collectives(strategy)
    assert strategy.extended._cross_device_ops is reduction


def test_hierarchical_sums_over_an_odd_number_of_replicas_are_found():
    """The gradients of a replica would be ignored."""
    for kind in (tf.distribute.MirroredStrategy, tf.compat.v1.distribute.MirroredStrategy):
        for count, leaves_out in ((1, False), (2, False), (3, True)):
            devices = [f"CPU:{index}" for index in range(count)]
            hierarchical = kind(devices, cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())
            assert private_tensorflow.leaves_out_a_replica(hierarchical) == leaves_out
    other = tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())
    assert not private_tensorflow.leaves_out_a_replica(other)
