"""What took the place of a name of tensorflow.contrib that is absent."""

import importlib
import importlib.util
import operator
import re

import pytest

from estimator_train.compat.tf1.instead import INSTEAD

pytestmark = pytest.mark.usefixtures("contrib")


def test_what_took_a_names_place_stands_only_for_names_that_are_absent(contrib):
    for path in INSTEAD:
        module, _, name = path.rpartition(".")
        assert not module or module in dir(contrib), path
        assert name not in dir(getattr(contrib, module) if module else contrib), path


def test_a_name_of_contrib_that_took_a_names_place_is_there(contrib):
    for path, today in INSTEAD.items():
        for used in re.findall(r"tf\.contrib\.([\w.]+)", today):
            assert operator.attrgetter(used)(contrib) is not None, path


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        ("contrib.rnn", "stack_bidirectional_rnn", "use tf.contrib.rnn.stack_bidirectional_dynamic_rnn"),
        ("contrib.rnn", "IndyLSTMCell", "estimator_train has only the parts that Estimator code used"),
        ("contrib", "seq2seq", "module 'tensorflow.contrib' has no attribute 'seq2seq': use tf.while_loop"),
        ("contrib", "lookups", "has no attribute 'lookups'; the closest name is 'lookup'"),
        ("contrib", "nothing", "has no attribute 'nothing': TensorFlow 2 has no contrib"),
        ("contrib.estimator", "RNNClassifier", "use tf.keras.estimator.model_to_estimator"),
        ("contrib.learn", "Estimator", "use tf.estimator.Estimator with a model_fn"),
        ("contrib.distribute", "TPUStrategy", "use MirroredStrategy over GPUs; TPUs are not supported"),
        ("contrib.rnn", "GRUCel", "the closest name is 'GRUCell'"),
        ("contrib.learn.python.learn.estimators", "SVM", "use scikit-learn"),
    ],
)
def test_an_absent_name_says_in_one_line_what_to_use(path, name, message):
    module = importlib.import_module(f"tensorflow.{path}")
    with pytest.raises(AttributeError, match=message) as error:
        getattr(module, name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("from tensorflow.contrib import seq2seq", "use tf.while_loop"),
        ("from tensorflow.contrib.seq2seq import BeamSearchDecoder", "use tf.while_loop"),
        ("from tensorflow.contrib.rnn import ConvLSTMCell", "use tf.keras.layers.ConvLSTM2D"),
        ("from tensorflow.contrib.learn.python.learn import models", "use tf.layers"),
    ],
)
def test_an_absent_import_says_what_to_use(statement, message):
    with pytest.raises(ModuleNotFoundError, match=message):
        exec(statement)
