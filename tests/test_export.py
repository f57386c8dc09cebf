import pytest
import tensorflow as tf

from estimator_train import export

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def floats(name=None):
    return v1.placeholder(tf.float32, [None], name=name)


def names(tensor_infos):
    return {key: info.name for key, info in tensor_infos.items()}


def parsing_receiver(**alternatives):
    receiver = export.build_parsing_serving_input_receiver_fn({"x": tf.io.FixedLenFeature([], tf.float32)})()
    alternatives = {name: make(receiver.features["x"]) for name, make in alternatives.items()}
    return export.ServingInputReceiver(receiver.features, receiver.receiver_tensors, alternatives or None)


def test_a_serving_receiver_names_single_tensors():
    x, text = floats(), v1.placeholder(tf.string, [None])
    receiver = export.ServingInputReceiver(x, text, {"raw": x})
    assert receiver.features == {"feature": x}
    assert receiver.receiver_tensors == {"input": text}
    assert receiver.receiver_tensors_alternatives == {"raw": {"input": x}}


def test_a_serving_receiver_takes_sparse_and_ragged_features_and_int_keys():
    features = {0: v1.sparse_placeholder(tf.int64), "r": v1.ragged.placeholder(tf.int64, 1)}
    assert export.ServingInputReceiver(features, floats()).features == features


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, 1), "features must be defined"),
        (({"x": 1.0}, "x"), "feature x must be a Tensor"),
        (({1.5: "x"}, "x"), "feature keys must be strs or ints: 1.5"),
        (("x", None), "receiver_tensors must be defined"),
        (("x", {1: "x"}), "receiver_tensor keys must be strs: 1"),
        (("x", "x", ["x"]), "receiver_tensors_alternatives must be a dict"),
        (("x", "x", {"raw": 1.0}), "receiver_tensors_alternative input must"),
    ],
)
def test_a_bad_receiver_is_reported(arguments, message):
    x = floats()

    def with_tensors(value):
        if isinstance(value, dict):
            return {key: with_tensors(item) for key, item in value.items()}
        return x if value == "x" else value

    with pytest.raises(ValueError, match=message):
        export.ServingInputReceiver(*map(with_tensors, arguments))


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


def test_a_predict_output_names_a_single_tensor_and_joins_tuple_keys():
    y = floats("y")
    assert export.PredictOutput(y).outputs == {"output": y}
    assert export.PredictOutput({("head", "logits"): y}).outputs == {"head/logits": y}
    signature = export.PredictOutput({"y": y}).as_signature_def({"x": y})
    assert signature.method_name == tf.saved_model.PREDICT_METHOD_NAME
    assert (names(signature.inputs), names(signature.outputs)) == ({"x": "y:0"}, {"y": "y:0"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: export.PredictOutput({1: floats()}), "Prediction output key must be a string; got 1"),
        (lambda: export.PredictOutput({"y": 1.0}), "Prediction output value must be a Tensor; got 1.0"),
        (lambda: export.ClassificationOutput(), "At least one of `scores` and `classes` must be defined"),
        (lambda: export.ClassificationOutput(scores=tf.constant([1])), "scores must be a float32 Tensor"),
        (lambda: export.ClassificationOutput(classes=tf.constant([1])), "classes must be a string Tensor"),
        (lambda: export.RegressionOutput(tf.constant([1])), "value must be a float32 Tensor"),
        (lambda: export.EvalOutput(metrics={"m": (1.0, floats())}), "metrics/m output value must be a Tensor"),
        (
            lambda: export.EvalOutput(metrics={"m": (floats(), 1.0)}),
            "metrics/m update_op must be a Tensor or Operation",
        ),
    ],
)
def test_a_bad_output_is_reported(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_classification_and_regression_take_one_string_tensor():
    scores = floats("scores")
    classes = v1.placeholder(tf.string, [None], name="classes")
    examples = v1.placeholder(tf.string, [None], name="examples")
    signature = export.ClassificationOutput(scores, classes).as_signature_def({"anything": examples})
    assert signature.method_name == tf.saved_model.CLASSIFY_METHOD_NAME
    assert names(signature.inputs) == {"inputs": "examples:0"}
    assert names(signature.outputs) == {"scores": "scores:0", "classes": "classes:0"}

    signature = export.RegressionOutput(scores).as_signature_def({"anything": examples})
    assert signature.method_name == tf.saved_model.REGRESS_METHOD_NAME
    assert names(signature.outputs) == {"outputs": "scores:0"}
    for output in (export.ClassificationOutput(scores), export.RegressionOutput(scores)):
        for wrong in ({"x": scores}, {"a": examples, "b": examples}):
            with pytest.raises(ValueError, match="take a single string tensor"):
                output.as_signature_def(wrong)


def test_export_output_is_to_be_derived_from():
    with pytest.raises(TypeError):
        export.ExportOutput()


def test_single_and_prefixed_supervised_outputs_keep_their_names():
    y = floats()
    output = export.EvalOutput(loss={"a": y, "loss_b": y}, predictions=y, metrics=(y, y))
    assert set(output.loss) == {"loss/a", "loss_b"}
    assert set(output.predictions) == {"predictions"}
    assert set(output.metrics) == {"metrics/value", "metrics/update_op"}
    assert export.EvalOutput().loss is None
