"""add_metrics adds to what a model is evaluated by."""

import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train.estimator_v1 import Estimator

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    w = v1.get_variable("w", [], initializer=v1.ones_initializer())
    loss = tf.reduce_mean(w * features)
    return et.EstimatorSpec(
        mode,
        predictions={"y": w * features},
        loss=loss,
        train_op=tf.group(w.assign_add(1.0), v1.assign_add(v1.train.get_global_step(), 1)),
        eval_metric_ops={"mean": v1.metrics.mean(features)},
    )


def input_fn():
    return tf.data.Dataset.from_tensor_slices(([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])).batch(2)


def pairs(labels, predictions):
    return {"mae": v1.metrics.mean_absolute_error(labels, predictions["y"])}


def keras_metrics(features, labels, predictions, config):
    metric = keras.metrics.MeanAbsoluteError()
    metric.update_state(labels, predictions["y"])
    return {"mae": metric, "mean": v1.metrics.mean(features + config.save_summary_steps)}


def test_added_metrics_stand_beside_the_models(tmp_path):
    estimator = et.Estimator(model_fn, tmp_path).train(input_fn, steps=1)  # w is 2
    results = et.add_metrics(estimator, pairs).evaluate(input_fn)
    assert results["mae"] == pytest.approx((1 + 2 + 2) / 3)
    assert results["mean"] == 2


def test_an_estimator_of_tensorflow_1_keeps_its_interface(tmp_path):
    estimator = Estimator(model_fn, tmp_path).train(input_fn, steps=1)

    def receiver_fn():
        features = v1.placeholder(tf.float32, [None])
        return et.export.TensorServingInputReceiver(features, features)

    assert et.add_metrics(estimator, pairs).export_savedmodel(tmp_path / "exported", receiver_fn)
    with pytest.raises(AttributeError, match="use export_saved_model"):
        et.add_metrics(et.Estimator(model_fn), pairs).export_savedmodel()


def test_added_metrics_are_in_the_export_and_in_the_model_fn(tmp_path):
    estimator = et.add_metrics(et.Estimator(model_fn, tmp_path / "run").train(input_fn, steps=1), pairs)
    outer = et.Estimator(estimator.model_fn, tmp_path / "run")
    assert outer.evaluate(input_fn)["mae"] == pytest.approx((1 + 2 + 2) / 3)
    supervised = et.experimental.build_raw_supervised_input_receiver_fn(tf.zeros([1]), tf.zeros([1]))
    folder = estimator.export_saved_model(tmp_path / "export", supervised, experimental_mode=et.ModeKeys.EVAL)
    with v1.Session(graph=tf.Graph()) as session:
        outputs = v1.saved_model.load(session, ["eval"], folder.decode()).signature_def["eval"].outputs
    assert {"metrics/mae/value", "metrics/mae/update_op", "metrics/mean/value"} <= set(outputs)


def test_keras_metrics_can_be_added_and_take_a_models_name(tmp_path):
    estimator = et.Estimator(model_fn, tmp_path).train(input_fn, steps=1)
    results = et.add_metrics(estimator, keras_metrics).evaluate(input_fn)
    assert results["mae"] == 1.75  # Keras takes a vector for one example: the mean of 1.5 and 2
    assert results["mean"] == 102


def test_the_new_estimator_trains_and_warm_starts_as_the_old(tmp_path):
    old = et.Estimator(model_fn, tmp_path / "old").train(input_fn, steps=1)
    warm = et.Estimator(model_fn, tmp_path / "warm", warm_start_from=old.model_dir)
    estimator = et.add_metrics(warm, pairs).train(input_fn, steps=1)
    assert estimator.get_variable_value("w") == 3


@pytest.mark.slow
def test_a_keras_model_has_added_metrics_of_all_examples(classifier, data, batches, mirrored, tmp_path):
    config = et.RunConfig(tmp_path, eval_distribute=mirrored(2))
    model = classifier()
    estimator = et.model_to_estimator(model, config=config).train(batches(data, 16))
    name = model.output_names[0]

    def metric_fn(features, labels, predictions):
        metric = keras.metrics.CategoricalAccuracy()
        metric.update_state(labels, predictions[name])
        return {"again": metric, "first": v1.metrics.mean(features[:, 0])}

    added = et.add_metrics(estimator, metric_fn)
    results = added.evaluate(batches(data, 20))
    assert results["again"] == pytest.approx(results["accuracy"])
    assert results["first"] == pytest.approx(data[0][:, 0].mean(), abs=1e-6)
    assert added.evaluate(batches(data, 20)) == results
    assert estimator.evaluate(batches(data, 20)).keys() == {"accuracy", "global_step", "loss"}


@pytest.mark.slow
def test_added_metrics_are_of_batches_of_any_size_one_after_another(classifier, data, batches, tmp_path):
    estimator = et.model_to_estimator(classifier(), config=et.RunConfig(tmp_path)).train(batches(data, 16))
    added = et.add_metrics(estimator, lambda labels: {"share": v1.metrics.mean(labels[:, 0])})

    def fixed(size):
        def input_fn():
            return batches(data, 16)().unbatch().take(96).batch(size, drop_remainder=True)

        return input_fn

    input_fns = [fixed(32), fixed(48), batches(tuple(array[:96] for array in data), 36), fixed(32)]
    shares = [added.evaluate(input_fn)["share"] for input_fn in input_fns]
    assert shares == pytest.approx([data[1][:96, 0].mean()] * 4)


def test_an_unknown_argument_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"not expected args: \['logits'\]"):
        et.add_metrics(et.Estimator(model_fn, tmp_path), lambda logits: {})
