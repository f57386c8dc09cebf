"""Each private name of TensorFlow that replicas need, used as in the package; docstrings say what breaks without it."""

import tensorflow as tf

from estimator_train._engine.distribution import private_tensorflow


def test_strategies_over_different_cpus_in_one_process():
    """The second one fails: its device is joining a group with size 3, but that group has size 2."""
    sums = []
    for count in (2, 3, 2):
        strategy = tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(count)])
        private_tensorflow.own_collectives(strategy)
        ones = strategy.run(tf.function(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([]))))
        sums.append(int(strategy.experimental_local_results(ones)[0]))
    assert sums == [2, 3, 2]


def test_reductions_that_the_user_has_chosen_are_kept():
    """A strategy would not reduce as its user asked."""
    reduction = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=reduction)
    private_tensorflow.own_collectives(strategy)
    assert strategy.extended._cross_device_ops is reduction
