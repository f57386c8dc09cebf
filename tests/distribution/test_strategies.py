"""Strategies over GPUs and CPU replicas."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
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
    with pytest.raises(ValueError, match="--all-reduce nccl needs GPUs"):
        distribution.cpu_replicas(2, all_reduce="nccl")


def test_without_gpus_a_model_is_split_over_logical_cpus():
    assert distribution.devices_to_split_over(3) == ["CPU:0", "CPU:1", "CPU:2"]


@pytest.mark.gpu(2)
def test_nccl_sums_over_gpus_where_it_is_chosen(gpus):
    strategy = gpus(2, all_reduce="nccl")

    @tf.function
    def total():
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.ones([3])))

    assert "NcclAllReduce" in {op.type for op in total.get_concrete_function().graph.get_operations()}
    for of_replica in strategy.experimental_local_results(total()):
        np.testing.assert_array_equal(of_replica, [2, 2, 2])


@pytest.mark.gpu(2)
@pytest.mark.parametrize("all_reduce", [None, "nccl", "hierarchical"])
def test_two_gpus_train_as_one_does_with_twice_the_batch(all_reduce, gpus, classifier, data, batches, tmp_path):
    def predictions(strategy, batch_size):
        keras.utils.set_random_seed(7)
        config = et.RunConfig(tmp_path / str(batch_size), train_distribute=strategy)
        estimator = et.model_to_estimator(classifier(), config=config)
        estimator.train(batches(data, batch_size, 2))
        assert estimator.get_variable_value("global_step") == 24
        return [list(prediction.values()) for prediction in estimator.predict(batches(data, 32))]

    on_two = predictions(gpus(2, all_reduce=all_reduce), 8 // 2)
    np.testing.assert_allclose(on_two, predictions(gpus(1), 8), atol=1e-5)
    assert tf.config.experimental.get_memory_info("GPU:1")["peak"] > 0
