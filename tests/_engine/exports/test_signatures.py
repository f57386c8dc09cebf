import pytest
import tensorflow as tf
import tf_keras as keras
from exports import floats, parsing_receiver

from estimator_train import export
from estimator_train._engine.exports.signatures import signatures as signatures_of

v1 = tf.compat.v1

pytestmark = pytest.mark.usefixtures("graph")


def test_signatures_are_named_by_output_and_by_alternative(log_lines):
    receiver = parsing_receiver(
        raw=lambda x: {"x": x}, single=lambda x: x, elsewhere=lambda x: v1.placeholder(tf.string, [None])
    )
    y = 2 * receiver.features["x"]
    outputs = {
        "serving_default": export.PredictOutput({"y": y}),
        "classes": export.ClassificationOutput(scores=y, classes=tf.as_string(y)),
        "value": export.RegressionOutput(y),
        "value64": export.RegressionOutput(tf.cast(y, tf.float64)),
        "loss": export.EvalOutput(loss=tf.reduce_sum(y)),
    }
    signatures = signatures_of(receiver, outputs)
    # As TensorFlow 2.15.1 exports them.
    assert set(signatures) == {"serving_default", "classes", "value", "raw:serving_default", "single:serving_default"}
    assert set(signatures["single:serving_default"].inputs) == {"input"}
    assert "Signatures INCLUDED in export for Classify: ['classes']" in log_lines
    assert "Signatures INCLUDED in export for Train: None" in log_lines
    assert any(line.startswith("'elsewhere:serving_default' : ") and "placeholder" in line for line in log_lines)


def test_a_variable_and_a_default_placeholder_need_not_be_fed():
    x = floats("x")
    keep = v1.placeholder_with_default(1.0, [])
    w = v1.get_variable("w", shape=[])
    signatures = signatures_of(
        export.ServingInputReceiver({"x": x}, {"x": x}), {"serving_default": export.PredictOutput(x * w * keep)}
    )
    assert set(signatures) == {"serving_default"}


def test_an_output_of_a_placeholder_that_is_not_fed_is_left_out(log_lines):
    x, other = floats("x"), floats("other")
    receiver = export.ServingInputReceiver({"x": x}, {"x": x})
    assert signatures_of(receiver, {"sum": export.PredictOutput(x + other)}) == {}
    assert any("need the placeholder other" in line for line in log_lines)
    assert "Export includes no signatures!" in log_lines


def test_sparse_inputs_are_fed_by_their_parts():
    x = v1.sparse_placeholder(tf.float32, name="x")
    receiver = export.ServingInputReceiver({"x": x}, {"x": x})
    outputs = {"serving_default": export.PredictOutput(tf.sparse.reduce_sum(x))}
    assert set(signatures_of(receiver, outputs)) == {"serving_default"}


@pytest.mark.parametrize(
    ("mode", "method"), [("train", "tensorflow/supervised/training"), ("eval", "tensorflow/supervised/eval")]
)
def test_a_supervised_signature_has_loss_predictions_and_metrics(mode, method):
    receiver = export.build_raw_supervised_input_receiver_fn({"x": tf.zeros([1], name="x")}, tf.zeros([1]))()
    y = receiver.features["x"] * 2
    keras_metric = keras.metrics.Mean("m")
    keras_metric.update_state(y)
    metrics = {"mae": v1.metrics.mean(y), "op": (tf.reduce_sum(y), tf.no_op()), "keras": keras_metric}
    kind = {"train": export.TrainOutput, "eval": export.EvalOutput}[mode]
    output = kind(tf.reduce_sum(y - receiver.labels), {"y": y}, metrics)
    signatures = signatures_of(receiver, {mode: output}, serving_only=False)
    assert set(signatures) == {mode}
    assert signatures[mode].method_name == method
    assert set(signatures[mode].inputs) == {"x", "label"}
    expected = {f"metrics/{name}/{part}" for name in metrics for part in ("value", "update_op")}
    assert set(signatures[mode].outputs) == expected | {"loss", "predictions/y"}


def test_the_signatures_serve(tmp_path):
    receiver = parsing_receiver()
    outputs = {"serving_default": export.PredictOutput({"y": receiver.features["x"] * 2})}
    builder = v1.saved_model.Builder(str(tmp_path / "model"))
    with v1.Session() as session:
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=signatures_of(receiver, outputs))
    builder.save()
    example = tf.train.Example(
        features=tf.train.Features(feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[2.5]))})
    )
    with tf.__internal__.eager_context.eager_mode():
        serve = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
        served = serve(examples=tf.constant([example.SerializeToString()]))
        assert served["y"].numpy().tolist() == [5.0]
