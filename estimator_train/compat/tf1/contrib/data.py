"""tf.contrib.data, most of which has become tf.data.experimental."""

import tensorflow as tf

_data = tf.compat.v1.data
_experimental = _data.experimental

AUTOTUNE = _experimental.AUTOTUNE
Counter = _experimental.Counter
CsvDataset = _experimental.CsvDataset
Dataset = _data.Dataset
FixedLengthRecordDataset = _data.FixedLengthRecordDataset
Iterator = _data.Iterator
Optional = _experimental.Optional
RandomDataset = _experimental.RandomDataset
Reducer = _experimental.Reducer
SqlDataset = _experimental.SqlDataset
TextLineDataset = _data.TextLineDataset
TFRecordDataset = _data.TFRecordDataset
TFRecordWriter = _experimental.TFRecordWriter
bucket_by_sequence_length = _experimental.bucket_by_sequence_length
choose_from_datasets = _experimental.choose_from_datasets
copy_to_device = _experimental.copy_to_device
dense_to_sparse_batch = _experimental.dense_to_sparse_batch
enumerate_dataset = _experimental.enumerate_dataset
get_next_as_optional = _experimental.get_next_as_optional
get_single_element = _experimental.get_single_element
group_by_reducer = _experimental.group_by_reducer
group_by_window = _experimental.group_by_window
ignore_errors = _experimental.ignore_errors
make_batched_features_dataset = _experimental.make_batched_features_dataset
make_csv_dataset = _experimental.make_csv_dataset
make_saveable_from_iterator = _experimental.make_saveable_from_iterator
map_and_batch = _experimental.map_and_batch
parallel_interleave = _experimental.parallel_interleave
parse_example_dataset = _experimental.parse_example_dataset
prefetch_to_device = _experimental.prefetch_to_device
rejection_resample = _experimental.rejection_resample
sample_from_datasets = _experimental.sample_from_datasets
scan = _experimental.scan
shuffle_and_repeat = _experimental.shuffle_and_repeat
unbatch = _experimental.unbatch
unique = _experimental.unique


def batch_and_drop_remainder(batch_size):
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def read_batch_features(
    file_pattern, batch_size, features, reader=None, reader_args=None, randomize_input=True, num_epochs=None, **options
):
    """Returns the features of a batch, a dict of tensors; make_batched_features_dataset describes the arguments."""
    how = reader, None, reader_args, num_epochs, randomize_input, options.pop("capacity", 10000)
    dataset = make_batched_features_dataset(file_pattern, batch_size, features, *how, **options)
    return _data.make_one_shot_iterator(dataset).get_next()


def sloppy_interleave(map_func, cycle_length, block_length=1):
    return parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


def padded_batch_and_drop_remainder(batch_size, padded_shapes, padding_values=None):
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)
