"""The data of a run on a machine with GPUs; CPU:1 stands for one."""

import os

import pytest
import tensorflow as tf

from estimator_train._engine.keras import dataset
from estimator_train._engine.keras.private_tensorflow import strategy_of


@pytest.fixture
def distributed(monkeypatch):
    """Gives the distributed dataset of a dataset, for a model without a strategy on a GPU."""

    def make(data):
        with tf.device("CPU:1"):
            return dataset.distributed_dataset(tf.distribute.get_strategy(), lambda: data, None, mode="train")

    monkeypatch.setattr(dataset, "is_gpu", lambda device: device.endswith("CPU:1"))
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["a GPU"])
    return make


def test_numbers_are_read_onto_the_gpu_and_strings_stay_on_the_host(distributed):
    numbers = tf.data.Dataset.from_tensor_slices({"x": [1, 2], "y": [1.0, 2.0]})
    first, second = (iter(distributed(numbers)) for _ in range(2))
    assert isinstance(first, tf.distribute.DistributedIterator)
    assert strategy_of(first) is strategy_of(second)  # else each run would be traced again
    for values in (["a", "b"], tf.ragged.constant([[1], [2, 3]])):
        assert isinstance(distributed(tf.data.Dataset.from_tensor_slices(values)), tf.data.Dataset)


@pytest.mark.parametrize(("cores", "size"), [(16, 15), (2, 1), (1, 1)])
def test_beside_a_gpu_the_input_has_threads_for_all_cores_but_one(cores, size, distributed, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    strings = tf.data.Dataset.from_tensor_slices(["a", "b"])
    assert distributed(strings).options().threading.private_threadpool_size == size
    own = tf.data.Options()
    own.threading.private_threadpool_size = 7
    assert distributed(strings.with_options(own)).options().threading.private_threadpool_size == 7
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [])
    assert distributed(strings).options().threading.private_threadpool_size is None
