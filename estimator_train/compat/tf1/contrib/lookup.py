"""tf.contrib.lookup: the tables of tf.lookup, and those that TensorFlow no longer exports."""

import tensorflow as tf

from estimator_train.compat.drop_in import private_tensorflow as _private_tensorflow

_lookup_ops = _private_tensorflow.lookup_ops()

FastHashSpec = _lookup_ops.FastHashSpec
HasherSpec = _lookup_ops.HasherSpec
IdTableWithHashBuckets = _lookup_ops.IdTableWithHashBuckets
StrongHashSpec = _lookup_ops.StrongHashSpec
TextFileIdTableInitializer = _lookup_ops.TextFileIdTableInitializer
TextFileStringTableInitializer = _lookup_ops.TextFileStringTableInitializer
index_table_from_file = _lookup_ops.index_table_from_file
index_to_string_table_from_file = _lookup_ops.index_to_string_table_from_file

tf.compat.v1.lookup.StaticHashTable.init = _lookup_ops.HashTable.init  # what the functions return had it, too


class HashTable(tf.compat.v1.lookup.StaticHashTable):
    """A static hash table with TF 1's signature; `shared_name` is ignored."""

    def __init__(self, initializer, default_value, shared_name=None, name=None):
        super().__init__(initializer, default_value, name=name)


def index_table_from_tensor(
    mapping, num_oov_buckets=0, default_value=-1, hasher_spec=FastHashSpec, dtype=tf.string, name=None
):
    return _lookup_ops.index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, dtype, name)


def index_to_string_table_from_tensor(mapping, default_value="UNK", name=None):
    return _lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name)


def string_to_index(tensor, mapping, default_value=-1, name=None):
    return index_table_from_tensor(mapping, default_value=default_value).lookup(tensor, name)


def index_to_string(tensor, mapping, default_value="UNK", name=None):
    return index_to_string_table_from_tensor(mapping, default_value).lookup(tensor, name)
