"""Each private name of TensorFlow, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import pytest
import tensorflow as tf

from estimator_train.compat.drop_in import private_tensorflow


def test_the_names_of_a_functions_arguments():
    """Old code that imports fn_args from tensorflow_estimator.python.estimator.util would fail."""

    class Model:
        def call(self, features, *, mode):
            pass

    assert private_tensorflow.fn_args(Model().call) == ("features",)


def test_the_decorators_of_deprecated_functions(log_lines):
    """tensor2tensor and others could not be imported: tf.contrib.framework.deprecated was public."""
    deprecation = private_tensorflow.deprecation()

    @deprecation.deprecated("2018-09-15", "Use the other function.")
    @deprecation.deprecated_args(None, "Name it.", "old")
    @deprecation.deprecated_arg_values(None, "Give a number.", new=None)
    def function(new, old=None):
        return new

    with deprecation.silence():  # else --tf1 would begin with a warning
        assert function(1) == 1
    assert not log_lines
    assert function(1) == 1
    assert "Use the other function." in "".join(log_lines)


def test_an_iterator_is_saved_and_restored(tmp_path):
    """tf.data.experimental.CheckpointInputPipelineHook would save nothing."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        iterator = v1.data.make_initializable_iterator(v1.data.Dataset.range(5))
        (resource,) = private_tensorflow.iterators()
        policy = tf.data.experimental.ExternalStatePolicy.FAIL
        saver = v1.train.Saver([private_tensorflow.iterator_saveable(resource, policy)])
        number = iterator.get_next()
        session.run([iterator.initializer])
        assert session.run(number) == 0
        path = saver.save(session, str(tmp_path / "input"))
        assert session.run(number) == 1 and session.run(number) == 2
        saver.restore(session, path)
        assert session.run(number) == 1


def test_the_initializers_of_tables_from_text_files(tmp_path):
    """tf.contrib.lookup had TextFileIdTableInitializer and TextFileStringTableInitializer."""
    (tmp_path / "words").write_text("a\nb\n")
    lookup_ops = private_tensorflow.lookup_ops()
    ids = lookup_ops.TextFileIdTableInitializer(str(tmp_path / "words"), vocab_size=2)
    strings = lookup_ops.TextFileStringTableInitializer(str(tmp_path / "words"), vocab_size=2)
    assert tf.lookup.StaticHashTable(ids, -1).lookup(tf.constant("b")).numpy() == 1
    assert tf.lookup.StaticHashTable(strings, "?").lookup(tf.constant(0, tf.int64)).numpy() == b"a"


def test_the_functions_of_nested_structures():
    """`from tensorflow.contrib.framework import nest` would lack what tf.nest does not export."""
    assert private_tensorflow.nest().flatten_up_to([0, 0], [1, [2]]) == [1, [2]]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_modules_that_tf_compat_wraps(version):
    """`import tensorflow._api.v2.compat.v1 as tf`, which editors write, would have no tf.estimator after install()."""
    module = private_tensorflow.unwrapped_compat_module(version)
    assert module.Graph is getattr(tf.compat, version).Graph
    assert module is not getattr(tf.compat, version)
