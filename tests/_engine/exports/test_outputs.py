import pytest
import tensorflow as tf
from exports import floats, names

from estimator_train import export

v1 = tf.compat.v1

pytestmark = pytest.mark.usefixtures("graph")


def test_a_predict_output_names_a_single_tensor_and_joins_tuple_keys():
    y = floats("y")
    assert export.PredictOutput(y).outputs == {"output": y}
    assert export.PredictOutput({("head", "logits"): y}).outputs == {"head/logits": y}
    signature = export.PredictOutput({"y": y}).as_signature_def({"x": y})
    assert signature.method_name == tf.saved_model.PREDICT_METHOD_NAME
    assert (names(signature.inputs), names(signature.outputs)) == ({"x": "y:0"}, {"y": "y:0"})


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
