"""What tf.contrib.learn had for the inputs of exports, and for hooks, with the names and shapes of TensorFlow 1.15.5.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran the lines of these tests with
`learn = tf.contrib.learn`, and an Estimator for replace_monitors_with_hooks, which asks for one there.
"""

import pytest
import tensorflow as tf

from estimator_train.compat.tf1.contrib import learn

v1 = tf.compat.v1


def described(tensors):
    return {name: (tensor.name, tensor.shape.as_list(), tensor.dtype) for name, tensor in tensors.items()}


def test_serialized_examples_are_parsed():
    spec = {"x": tf.io.FixedLenFeature([2], tf.float32)}
    found = learn.utils.input_fn_utils.build_parsing_serving_input_fn(spec, 3)()
    assert isinstance(found, learn.InputFnOps) and found.labels is None
    assert found.features["x"].shape.as_list() == [3, 2]
    assert described(found.default_inputs) == {"examples": ("input_example_tensor:0", [3], tf.string)}


def test_features_are_fed_under_their_names():
    features = {"x": tf.zeros([5, 2], name="x"), "y": tf.zeros([5], tf.int32, name="y")}
    found = learn.utils.build_default_serving_input_fn(features)()
    assert described(found.features) == {"x": ("x_1:0", [None, 2], tf.float32), "y": ("y_1:0", [None], tf.int32)}
    assert found.default_inputs is found.features and found.labels is None


def test_hooks_need_no_replacement():
    hook = v1.train.StopAtStepHook(3)
    replace = learn.monitors.replace_monitors_with_hooks
    assert replace((hook,), estimator=None) == [hook] and replace(None, None) == []


def test_a_monitor_is_refused():
    """1.15.5 adapts monitors, which are not supported here."""
    with pytest.raises(TypeError, match="3 is no tf.train.SessionRunHook; monitors are not supported"):
        learn.monitors.replace_monitors_with_hooks([3], None)
