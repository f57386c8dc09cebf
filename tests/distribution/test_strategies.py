"""Strategies over GPUs and CPU replicas."""

import pytest
import tensorflow as tf

from estimator_train import distribution


def test_more_gpus_than_there_are_are_refused_with_what_to_use(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    with pytest.raises(ValueError, match="--gpus 2: TensorFlow sees 0; use --replicas 2 for CPU replicas"):
        distribution.gpus(2)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"])
    with pytest.raises(
        ValueError, match="--gpus 2: TensorFlow sees 1; use --gpus 1; use --replicas 2 for CPU replicas"
    ):
        distribution.gpus(2)


def test_the_reduction_over_replicas_can_be_chosen():
    kinds = {"hierarchical": tf.distribute.HierarchicalCopyAllReduce, "one_device": tf.distribute.ReductionToOneDevice}
    for name, kind in kinds.items():
        strategy = distribution.cpu_replicas(2, all_reduce=name)
        assert isinstance(strategy.extended._get_cross_device_ops(tf.zeros([])), kind)
        total = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0)))
        assert [float(each) for each in strategy.experimental_local_results(total)] == [2, 2]
    with pytest.raises(ValueError, match="--all-reduce nccl sums over GPUs"):
        distribution.cpu_replicas(2, all_reduce="nccl")


def test_without_gpus_a_model_is_split_over_logical_cpus():
    assert distribution.devices_to_split_over(3) == ["CPU:0", "CPU:1", "CPU:2"]
