"""Which errors of scripts come from the lack of --tf1."""

import types

import pytest
import tensorflow as tf

from estimator_train.compat.tf1.missing_name import name_of_tf1


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("tf.train.AdamOptimizer", "tf.train.AdamOptimizer"),
        ("tf.contrib.layers", "tf.contrib"),
        ("tf.placeholder(tf.float32)", "tf.placeholder"),
        ("tf.nn.rnn_cell.LSTMCell(2)", "tf.nn.rnn_cell"),
        ("tf.data.Dataset.range(3).make_one_shot_iterator()", "tf.data.Dataset.make_one_shot_iterator"),
        ("from tensorflow import placeholder", "tf.placeholder"),
        ("from tensorflow.contrib import slim", "tf.contrib"),
        ("import tensorflow.contrib.slim as slim", "tf.contrib"),
        ("import tensorflow.logging as log", "tf.logging"),
        ("from tensorflow.python_io import TFRecordWriter", "tf.python_io"),
        ("tf.train.AdamOptimiser", None),
        ("tf.compat.v1.train.Adam", None),
        ("tf.constant(1).placeholder", None),
        ("from tensorflow import place_holder", None),
        ("import tensorflow.nothing", None),
        ("import nothing", None),
        ("types.placeholder", None),
        ("raise ImportError('no')", None),
        ("1 / 0", None),
    ],
)
def test_the_name_that_only_tensorflow_1_has_is_found(statement, name):
    with pytest.raises(Exception) as error:  # noqa: B017, PT011, of various kinds
        exec(statement, {"tf": tf, "types": types})
    assert name_of_tf1(error.value) == name
