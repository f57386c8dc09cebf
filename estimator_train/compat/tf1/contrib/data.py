"""tf.contrib.data, most of which has become tf.data.experimental."""

import tensorflow as tf

_data = tf.compat.v1.data


def batch_and_drop_remainder(batch_size):
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def read_batch_features(
    file_pattern, batch_size, features, reader=None, reader_args=None, randomize_input=True, num_epochs=None, **options
):
    """Returns the features of a batch, a dict of tensors; make_batched_features_dataset describes the arguments."""
    how = reader, None, reader_args, num_epochs, randomize_input, options.pop("capacity", 10000)
    dataset = _data.experimental.make_batched_features_dataset(file_pattern, batch_size, features, *how, **options)
    return _data.make_one_shot_iterator(dataset).get_next()


def sloppy_interleave(map_func, cycle_length, block_length=1):
    return _data.experimental.parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


def padded_batch_and_drop_remainder(batch_size, padded_shapes, padding_values=None):
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)
