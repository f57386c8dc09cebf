"""The feature columns of tf.contrib.layers, built from those of tf.feature_column.

In contrib, a column determined how its ids are combined; in tf.feature_column, the function or column that uses it
does. A `combiner` other than the default is therefore refused.
"""

import tensorflow as tf

_v1 = tf.compat.v1.feature_column

bucketized_column = _v1.bucketized_column
create_feature_spec_for_parsing = _v1.make_parse_example_spec


def real_valued_column(column_name, dimension=1, default_value=None, dtype=tf.float32, normalizer=None):
    return _v1.numeric_column(column_name, dimension, default_value, dtype, normalizer)


def sparse_column_with_keys(column_name, keys, default_value=-1, combiner="sum", dtype=tf.string):
    _check_sum(combiner)
    return _v1.categorical_column_with_vocabulary_list(column_name, keys, dtype, default_value)


def sparse_column_with_vocabulary_file(
    column_name, vocabulary_file, num_oov_buckets=0, vocab_size=None, default_value=-1, combiner="sum", dtype=tf.string
):
    _check_sum(combiner)
    return _v1.categorical_column_with_vocabulary_file(
        column_name, vocabulary_file, vocab_size, num_oov_buckets, default_value, dtype
    )


def sparse_column_with_hash_bucket(column_name, hash_bucket_size, combiner="sum", dtype=tf.string):
    _check_sum(combiner)
    return _v1.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


def sparse_column_with_integerized_feature(column_name, bucket_size, combiner="sum", dtype=tf.int64):
    """Returns a column of ids in [0, bucket_size); other ids are an error. `dtype` is ignored."""
    _check_sum(combiner)
    return _v1.categorical_column_with_identity(column_name, bucket_size)


def weighted_sparse_column(sparse_id_column, weight_column_name, dtype=tf.float32):
    return _v1.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


def one_hot_column(sparse_id_column):
    return _v1.indicator_column(sparse_id_column)


def crossed_column(
    columns, hash_bucket_size, combiner="sum", ckpt_to_load_from=None, tensor_name_in_ckpt=None, hash_key=None
):
    _check_sum(combiner)
    if ckpt_to_load_from or tensor_name_in_ckpt:
        raise ValueError("crossed_column does not support ckpt_to_load_from; use tf.train.init_from_checkpoint")
    # tf.feature_column crosses the features themselves, not their hashes.
    keys = [
        column.key if hasattr(column, "hash_bucket_size") and hasattr(column, "key") else column for column in columns
    ]
    return _v1.crossed_column(keys, hash_bucket_size, hash_key)


def embedding_column(sparse_id_column, dimension, combiner="mean", initializer=None, *args, **kwargs):
    """Calls tf.feature_column.embedding_column, with contrib's initial values."""
    initializer = initializer or _initializer(sparse_id_column)
    return _v1.embedding_column(sparse_id_column, dimension, combiner, initializer, *args, **kwargs)


def shared_embedding_columns(
    sparse_id_columns, dimension, combiner="mean", shared_embedding_name=None, initializer=None, *args, **kwargs
):
    """Calls tf.feature_column.shared_embedding_columns, with contrib's initial values."""
    initializer = initializer or _initializer(sparse_id_columns[0])
    return _v1.shared_embedding_columns(
        sparse_id_columns, dimension, combiner, initializer, shared_embedding_name, *args, **kwargs
    )


def _initializer(column):
    """Returns contrib's initializer of an embedding, whose values depend on the ids, not on the dimension."""
    return tf.compat.v1.truncated_normal_initializer(stddev=column.num_buckets**-0.5)


def input_from_feature_columns(
    columns_to_tensors, feature_columns, weight_collections=None, trainable=True, scope=None
):
    with tf.compat.v1.variable_scope(scope, "input_from_feature_columns"):
        return _v1.input_layer(columns_to_tensors, feature_columns, weight_collections, trainable)


def _check_sum(combiner):
    if combiner != "sum":
        raise ValueError(
            f"combiner={combiner!r}: pass it where the column is used, to embedding_column or "
            "tf.feature_column.linear_model"
        )
