"""EstimatorSpec takes what a mode needs and says what is wrong with the rest."""

import pytest
import tensorflow as tf

import estimator_train as et

v1 = tf.compat.v1

pytestmark = pytest.mark.usefixtures("graph")


def spec(mode="train", **fields):
    return et.EstimatorSpec(mode, **{"loss": tf.constant(1.0), "train_op": tf.no_op()} | fields)


def test_a_loss_that_is_no_scalar_is_an_error_and_one_element_becomes_one():
    with pytest.raises(ValueError, match="Loss must be scalar, given"):
        spec(loss=tf.constant([1.0, 2.0]))
    assert spec(loss=tf.constant([[1.0]])).loss.shape == []


def test_tensors_of_another_graph_are_an_error():
    with tf.Graph().as_default():
        foreign, foreign_op = tf.constant(1.0, name="foreign"), tf.no_op()
    for fields in (
        {"loss": foreign},
        {"train_op": foreign_op},
        {"predictions": {"y": foreign}},
        {"eval_metric_ops": {"m": (foreign, tf.no_op())}},
    ):
        with pytest.raises(ValueError, match="must be from the default graph"):
            spec(**fields)


def test_predictions_are_the_default_export_output():
    y = tf.constant([1.0])
    assert spec("infer", predictions={"y": y}).export_outputs["serving_default"].outputs == {"y": y}
    assert spec("eval", predictions={"y": y}).export_outputs is None


def test_one_export_output_is_the_default_too_and_several_need_one():
    y = et.export.PredictOutput({"y": tf.constant([1.0])})
    outputs = spec("infer", predictions={"y": tf.constant([1.0])}, export_outputs={"mine": y}).export_outputs
    assert outputs == {"mine": y, "serving_default": y}
    with pytest.raises(ValueError, match="none is called 'serving_default'"):
        spec("infer", predictions={"y": tf.constant([1.0])}, export_outputs={"a": y, "b": y})


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_export_outputs_of_any_kind_stay_where_nothing_is_served(mode):
    """TensorFlow 2.15.1 checks them in PREDICT only: a model_fn may pass the same ones in every mode."""
    for outputs in ({"a": {"y": 1}, "b": None}, {"mine": et.export.PredictOutput(tf.constant([1.0]))}, {}):
        assert spec(mode, export_outputs=outputs).export_outputs == outputs


def test_a_keras_metric_that_is_not_updated_is_an_error():
    import tf_keras as keras

    from estimator_train._engine.model_fn import metric_pair

    with pytest.raises(ValueError, match=r'call update_state\(...\) on the "mean_absolute_error" metric, eval_'):
        metric_pair("mae", keras.metrics.MeanAbsoluteError())


def test_replace_checks_and_keeps_the_mode():
    assert spec()._replace(loss=(loss := tf.constant(2.0))).loss is loss
    with pytest.raises(ValueError, match="mode of EstimatorSpec cannot be changed"):
        spec()._replace(mode="eval")
    with pytest.raises(TypeError, match="loss must be Tensor"):
        spec()._replace(loss=3)


def test_a_metric_of_several_tensors_is_in_results_but_not_in_events(tmp_path, warnings):
    def model_fn(features, mode):
        loss = tf.reduce_sum(features)
        values, updates = zip(*(tf.compat.v1.metrics.mean(part) for part in (loss, 2 * loss)), strict=True)
        metrics = {"parts": (values, tf.group(*updates))}
        train_op = tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1)
        return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    estimator = et.Estimator(model_fn, tmp_path)

    def input_fn():
        return tf.data.Dataset.from_tensors(tf.ones([3]))

    assert estimator.train(input_fn).evaluate(input_fn)["parts"] == (3, 6)
    assert "Skipping summary for parts, which has several values." in warnings
