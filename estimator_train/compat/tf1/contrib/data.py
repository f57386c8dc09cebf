"""tf.contrib.data, most of which has become tf.data.experimental."""

from tensorflow.compat.v1.data import Dataset, FixedLengthRecordDataset, Iterator, TextLineDataset, TFRecordDataset  # noqa: F401
from tensorflow.compat.v1.data.experimental import *  # noqa: F403
from tensorflow.compat.v1.data.experimental import make_batched_features_dataset, parallel_interleave

read_batch_features = make_batched_features_dataset


def batch_and_drop_remainder(batch_size):
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def sloppy_interleave(map_func, cycle_length, block_length=1):
    return parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


def padded_batch_and_drop_remainder(batch_size, padded_shapes, padding_values=None):
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)
