"""tf.contrib.lookup: the tables of tf.lookup."""

import tensorflow as tf

from estimator_train.compat.drop_in import private_tensorflow as _private_tensorflow

_lookup = tf.compat.v1.lookup
_lookup_ops = _private_tensorflow.lookup_ops()

KeyValueTensorInitializer = _lookup.KeyValueTensorInitializer
MutableHashTable = _lookup.experimental.MutableHashTable
TextFileIndex = _lookup.TextFileIndex
TextFileIdTableInitializer = _lookup_ops.TextFileIdTableInitializer
TextFileInitializer = _lookup.TextFileInitializer
TextFileStringTableInitializer = _lookup_ops.TextFileStringTableInitializer


class HashTable(tf.compat.v1.lookup.StaticHashTable):
    """A static hash table with TF 1's signature; `shared_name` is ignored."""

    def __init__(self, initializer, default_value, shared_name=None, name=None):
        super().__init__(initializer, default_value, name=name)

    @property
    def init(self):
        return self.initializer


def index_table_from_tensor(mapping, num_oov_buckets=0, default_value=-1, hasher_spec=None, dtype=tf.string, name=None):
    _check_hasher(hasher_spec)
    keys = _as_keys(mapping, dtype)
    initializer = KeyValueTensorInitializer(keys, tf.range(tf.size(keys, tf.int64), dtype=tf.int64))
    return _index_table(initializer, num_oov_buckets, default_value, dtype, name)


def index_table_from_file(
    vocabulary_file=None,
    num_oov_buckets=0,
    vocab_size=None,
    default_value=-1,
    hasher_spec=None,
    key_dtype=tf.string,
    name=None,
    key_column_index=TextFileIndex.WHOLE_LINE,
    value_column_index=TextFileIndex.LINE_NUMBER,
    delimiter="\t",
):
    _check_hasher(hasher_spec)
    dtype = tf.int64 if tf.as_dtype(key_dtype).is_integer else key_dtype
    initializer = TextFileIdTableInitializer(
        _named(vocabulary_file), key_column_index, value_column_index, vocab_size, delimiter, key_dtype=dtype
    )
    return _index_table(initializer, num_oov_buckets, default_value, key_dtype, name)


def index_to_string_table_from_tensor(mapping, default_value="UNK", name=None):
    values = _as_keys(mapping, tf.string)
    initializer = KeyValueTensorInitializer(tf.range(tf.size(values, tf.int64), dtype=tf.int64), values)
    return HashTable(initializer, default_value, name=name)


def index_to_string_table_from_file(
    vocabulary_file,
    vocab_size=None,
    default_value="UNK",
    name=None,
    key_column_index=TextFileIndex.LINE_NUMBER,
    value_column_index=TextFileIndex.WHOLE_LINE,
    delimiter="\t",
):
    initializer = TextFileStringTableInitializer(
        _named(vocabulary_file), key_column_index, value_column_index, vocab_size, delimiter
    )
    return HashTable(initializer, default_value, name=name)


def string_to_index(tensor, mapping, default_value=-1, name=None):
    return index_table_from_tensor(mapping, default_value=default_value).lookup(tensor, name)


def index_to_string(tensor, mapping, default_value="UNK", name=None):
    return index_to_string_table_from_tensor(mapping, default_value).lookup(tensor, name)


def _index_table(initializer, num_oov_buckets, default_value, dtype, name):
    if num_oov_buckets:
        return _lookup.StaticVocabularyTable(initializer, num_oov_buckets, tf.as_dtype(dtype), name)
    return HashTable(initializer, default_value, name=name)


def _as_keys(mapping, dtype):
    if mapping is None:
        raise ValueError("mapping=None: pass the keys, a list or a 1-D tensor")
    dtype = tf.as_dtype(dtype)
    keys = tf.convert_to_tensor(mapping, dtype)
    return tf.cast(keys, tf.int64) if dtype.is_integer else keys


def _named(vocabulary_file):
    if vocabulary_file is None or vocabulary_file == "":
        raise ValueError(f"vocabulary_file={vocabulary_file!r}: pass the path of a file")
    return vocabulary_file


def _check_hasher(hasher_spec):
    if hasher_spec is not None:
        raise ValueError(
            f"hasher_spec={hasher_spec!r} is not supported: tables use FastHashSpec, the default; remove it"
        )
