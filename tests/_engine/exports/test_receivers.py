import pytest
import tensorflow as tf
from exports import floats, parsing_receiver

from estimator_train import export

v1 = tf.compat.v1

pytestmark = pytest.mark.usefixtures("graph")


def test_a_serving_receiver_names_single_tensors():
    x, text = floats(), v1.placeholder(tf.string, [None])
    receiver = export.ServingInputReceiver(x, text, {"raw": x})
    assert receiver.features == {"feature": x}
    assert receiver.receiver_tensors == {"input": text}
    assert receiver.receiver_tensors_alternatives == {"raw": {"input": x}}


def test_a_serving_receiver_takes_sparse_and_ragged_features_and_int_keys():
    features = {0: v1.sparse_placeholder(tf.int64), "r": v1.ragged.placeholder(tf.int64, 1)}
    assert export.ServingInputReceiver(features, floats()).features == features


def test_a_tensor_serving_receiver_gives_the_tensor_as_it_is():
    x = floats()
    receiver = export.TensorServingInputReceiver(x, x)
    assert receiver.features is x
    assert receiver.receiver_tensors == {"input": x}
    with pytest.raises(ValueError, match="use ServingInputReceiver"):
        export.TensorServingInputReceiver({"x": x}, x)


def test_the_parsing_receiver_takes_serialized_examples():
    receiver = parsing_receiver()
    (examples,) = receiver.receiver_tensors.values()
    example = tf.train.Example(
        features=tf.train.Features(feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[2.5]))})
    )
    with v1.Session() as session:
        fed = {examples: [example.SerializeToString()] * 2}
        assert list(session.run(receiver.features["x"], fed)) == [2.5, 2.5]
    assert set(receiver.receiver_tensors) == {"examples"}
    assert examples.op.name == "input_example_tensor"


def test_the_raw_receiver_has_a_placeholder_like_each_feature():
    pair = tf.constant([[1, 2]], tf.int64, name="pair")
    receiver = export.build_raw_serving_input_receiver_fn({"pair": pair}, default_batch_size=4)()
    placeholder = receiver.receiver_tensors["pair"]
    assert receiver.features == receiver.receiver_tensors
    assert placeholder.op.type == "Placeholder"
    assert (placeholder.dtype, placeholder.shape.as_list()) == (tf.int64, [4, 2])
    assert placeholder.op.name == "pair_1"


def test_the_raw_receiver_takes_eager_tensors():
    with tf.__internal__.eager_context.eager_mode():
        feature = tf.zeros([3, 2])
    receiver = export.build_raw_serving_input_receiver_fn({"x": feature})()
    assert receiver.features["x"].shape.as_list() == [None, 2]


def test_the_raw_supervised_receiver_names_single_tensors():
    receiver = export.build_raw_supervised_input_receiver_fn(tf.zeros([1, 2]), tf.zeros([1], tf.int64))()
    assert receiver.features.shape.as_list() == [None, 2]
    assert receiver.labels.dtype == tf.int64
    assert receiver.receiver_tensors == {"input": receiver.features, "label": receiver.labels}


def test_the_raw_supervised_receiver_needs_distinct_keys():
    x = tf.zeros([1])
    with pytest.raises(ValueError, match=r"overlapping keys: \{'x'\}"):
        export.build_raw_supervised_input_receiver_fn({"x": x}, {"x": x})
