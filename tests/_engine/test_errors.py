"""One context explains a full disk, memory that is full, and a lost worker."""

import pytest
import tensorflow as tf

from estimator_train._engine.cluster.synchronous import LostWorkerError
from estimator_train._engine.errors import explaining_errors
from estimator_train._engine.host.full_disk import FullDiskError


class Workers(tf.distribute.MultiWorkerMirroredStrategy):
    """Stands for a strategy over the workers of a cluster, whose constructor would wait for them."""

    def __init__(self):
        pass

    @property
    def cluster_resolver(self):
        return tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({"worker": ["w:1", "w:2"]}))


def exhausted(message):
    return tf.errors.ResourceExhaustedError(None, None, message)


@pytest.mark.parametrize(
    ("error", "explained", "message"),
    [
        (exhausted("Out of memory while allocating"), tf.errors.ResourceExhaustedError, "^a device is out of memory"),
        (exhausted("/tmp/model.ckpt-0; No space left on device"), FullDiskError, "^the disk of /tmp is full"),
        (tf.errors.UnavailableError(None, None, "/job:worker/replica:0/task:1"), LostWorkerError, "has lost worker 1"),
    ],
)
def test_errors_that_end_a_run_are_explained(error, explained, message, tmp_path):
    with pytest.raises(explained, match=message), explaining_errors(tmp_path, Workers()):
        raise error


def test_other_errors_stay_the_same(tmp_path):
    error = tf.errors.UnavailableError(None, None, "no cluster")
    with pytest.raises(tf.errors.UnavailableError) as caught, explaining_errors(tmp_path):
        raise error
    assert caught.value is error
