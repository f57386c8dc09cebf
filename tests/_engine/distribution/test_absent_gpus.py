"""Strategies over GPUs that are not there, over CPU replicas."""

import pytest
import tensorflow as tf

from estimator_train._engine.distribution import absent_gpus

v1 = tf.compat.v1


@pytest.fixture
def replaced(monkeypatch):
    for version in (tf, v1):
        for name in ("MirroredStrategy", "OneDeviceStrategy"):
            kind = getattr(version.distribute, name)
            monkeypatch.setattr(kind, "__init__", kind.__init__)  # so that it is put back
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [])
    absent_gpus.replace_by_cpus(2)


def devices(strategy):
    return [device.rpartition("device:")[2] for device in strategy.extended.worker_devices]


def test_absent_gpus_become_cpus(replaced):
    one = tf.distribute.ReductionToOneDevice()
    with tf.Graph().as_default():
        for made in (
            tf.distribute.MirroredStrategy(["GPU:0", "/gpu:1", "/device:GPU:2"], one),
            v1.distribute.MirroredStrategy(devices=["/gpu:0"], cross_device_ops=one),
            v1.distribute.MirroredStrategy(cross_device_ops=one),
        ):
            assert devices(made) == ["CPU:0", "CPU:1"]
        assert devices(v1.distribute.OneDeviceStrategy("/gpu:0")) == ["CPU:0"]
        assert devices(tf.distribute.OneDeviceStrategy(device="GPU:1")) == ["CPU:0"]


def test_other_devices_stay(replaced):
    assert devices(tf.distribute.OneDeviceStrategy("CPU:1")) == ["CPU:1"]
    with tf.Graph().as_default():
        one = tf.distribute.ReductionToOneDevice()
        assert devices(v1.distribute.MirroredStrategy(["CPU:0"], one)) == ["CPU:0"]


def test_a_gpu_is_absent_if_tensorflow_does_not_see_its_index(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["one"])
    assert absent_gpus.are_absent(["GPU:0", "/job:worker/replica:0/task:0/device:GPU:1"])
    assert not absent_gpus.are_absent(["/gpu:0", "CPU:3"])
