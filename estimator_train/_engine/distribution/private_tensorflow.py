"""Private names of TensorFlow that replicas need, each behind a function."""

import itertools

import tensorflow as tf

from estimator_train._engine.libraries import private_names_of

_KEYS = itertools.count(1000, 1000)  # a strategy counts up from its key


@private_names_of("tensorflow")
def own_collectives(strategy: tf.distribute.MirroredStrategy) -> None:
    """Gives the CPU replicas of a MirroredStrategy without `cross_device_ops` collective ops of their own, once."""
    extended = strategy.extended
    is_on_cpus = all("CPU" in device for device in extended._devices)
    chooses = extended._cross_device_ops is not extended._collective_ops
    if not is_on_cpus or len(extended._devices) == 1 or chooses or extended._collective_key_base:
        return
    # All MirroredStrategies count their groups and ops from the same keys, and TensorFlow fails if those of a second
    # one in the process have another number of devices or another shape.
    extended._collective_key_base = next(_KEYS)
    extended._collective_ops = extended._cross_device_ops = extended._make_collective_ops_with_fallbacks()


@private_names_of("tensorflow")
def leaves_out_a_replica(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether the strategy sums only some gradients: HierarchicalCopyAllReduce ignores an odd device."""
    if not isinstance(strategy, (tf.distribute.MirroredStrategy, tf.compat.v1.distribute.MirroredStrategy)):
        return False
    devices, reduction = strategy.extended._devices, strategy.extended._cross_device_ops
    is_hierarchical = isinstance(reduction, tf.distribute.HierarchicalCopyAllReduce)
    return is_hierarchical and len(devices) > 1 and len(devices) % 2 == 1
