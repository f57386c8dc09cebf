"""The parts of custom exporters, and the executor behind train_and_evaluate."""

import os
import time

import pytest
import tensorflow as tf

import estimator_train as et

v1 = tf.compat.v1


def test_directories_of_exports(tmp_path):
    from tensorflow_estimator.python.estimator.export import export, export_lib

    before = int(time.time())
    path = export.get_timestamped_export_dir(str(tmp_path))
    assert path.startswith(os.fsencode(tmp_path)) and int(os.path.basename(path)) >= before
    os.mkdir(path)
    later = export_lib.get_timestamped_export_dir(os.fsencode(tmp_path))
    assert int(os.path.basename(later)) > int(os.path.basename(path))
    assert export.get_temp_export_dir(b"base/17") == b"base/temp-17"


def test_signatures_of_all_receivers_and_outputs():
    from tensorflow_estimator.python.estimator.export import export

    with tf.Graph().as_default():
        fed = v1.placeholder(tf.string, [None])
        outputs = {"serving_default": et.export.PredictOutput(tf.strings.length(fed))}
        assert list(export.build_all_signature_defs(fed, outputs)) == ["serving_default"]
        both = export.build_all_signature_defs({"x": fed}, outputs, {"alt": {"y": fed}})
        assert list(both) == ["serving_default", "alt:serving_default"] and list(both["serving_default"].inputs) == [
            "x"
        ]
        with pytest.raises(ValueError, match="export_outputs` must be a dict|export_outputs must be a dict"):
            export.build_all_signature_defs(fed, None)


def test_input_tensors_are_wrapped_and_checked():
    from tensorflow_estimator.python.estimator.export.export import wrap_and_check_input_tensors

    with tf.Graph().as_default():
        tensor = tf.ones([2])
        names = {"feature": "feature", "label": "label", "receiver_tensor": "input"}
        for field, name in names.items():
            assert wrap_and_check_input_tensors(tensor, field) == {name: tensor}
        assert wrap_and_check_input_tensors({1: tensor}, "feature", allow_int_keys=True) == {1: tensor}
        for wrong, message in [
            ({1: tensor}, "keys must be strs: 1"),
            ({"a": 3}, "must be a Tensor"),
            (None, "defined"),
        ]:
            with pytest.raises(ValueError, match=f"label.*{message}"):
                wrap_and_check_input_tensors(wrong, "label")


def test_a_supervised_receiver_is_made_of_an_input_fn():
    from tensorflow_estimator.python.estimator.export import export

    def input_fn(size):
        return tf.data.Dataset.from_tensors(({"a": tf.ones([size])}, tf.ones([size, 3], tf.int32)))

    receiver_fn = export.build_supervised_input_receiver_fn_from_input_fn(input_fn, size=4)
    with tf.Graph().as_default():
        receiver = receiver_fn()
    assert isinstance(receiver, et.export.SupervisedInputReceiver) and list(receiver.receiver_tensors) == ["a", "label"]
    assert receiver.features["a"].shape.as_list() == [None] and receiver.labels.shape.as_list() == [None, 3]


@pytest.fixture
def estimator(tmp_path):
    def model_fn(features, labels, mode):
        step = v1.train.get_global_step()
        train_op = step.assign_add(1) if mode == "train" else None
        return et.EstimatorSpec(mode, {"y": features}, tf.reduce_mean(features), train_op)

    return et.Estimator(model_fn, tmp_path, et.RunConfig(save_checkpoints_steps=1))


def input_fn():
    return tf.data.Dataset.from_tensors([1.0]).repeat(5)


def receiver_fn():
    fed = v1.placeholder(tf.float32, [None])
    return et.export.TensorServingInputReceiver(fed, fed)


def test_the_exporter_that_others_are_made_of_exports_whenever_it_is_asked(estimator, tmp_path):
    from tensorflow.python.estimator.exporter import _loss_smaller, _SavedModelExporter, _verify_compare_fn_args

    estimator.train(input_fn, steps=1)
    exporter = _SavedModelExporter("own", receiver_fn, as_text=True)
    paths = {
        exporter.export(estimator, str(tmp_path / "out"), estimator.latest_checkpoint(), {}, is_the_final_export=False)
        for _ in range(2)
    }
    assert exporter.name == "own" and len(paths) == 2
    assert all(os.path.exists(os.path.join(path, b"saved_model.pbtxt")) for path in paths)
    assert _loss_smaller({"loss": 2}, {"loss": 1})
    with pytest.raises(ValueError, match="compare_fn"):
        _verify_compare_fn_args(lambda best: True)


def test_the_executor_trains_evaluates_and_calls_easyrecs_listener(estimator):
    from tensorflow_estimator.python.estimator import training

    calls = []

    class Listener(training._ContinuousEvalListener):
        def before_eval(self):
            calls.append("before")
            return True

        def after_eval(self, eval_result):
            calls.append((eval_result.status, eval_result.metrics["global_step"], eval_result.checkpoint_path[-1]))
            return eval_result.metrics["global_step"] < 2

    spec = et.EvalSpec(input_fn, throttle_secs=0)
    training._assert_eval_spec(spec)
    plain = training._TrainingExecutor(estimator, et.TrainSpec(input_fn, max_steps=1), spec)
    metrics, exports = plain.run()
    assert plain.estimator is estimator and metrics["global_step"] == 1 and exports == []
    hook = v1.train.StopAtStepHook(last_step=4)
    listened = training._TrainingExecutor(estimator, et.TrainSpec(input_fn), spec, [hook], Listener())
    assert listened.run() is None  # ended by the listener
    assert calls == ["before", ("evaluated", 1, "1"), "before", ("evaluated", 2, "2")]
    assert estimator.get_variable_value("global_step") == 2


def test_the_executor_returns_metrics_and_exports_and_checks_its_arguments(estimator):
    from tensorflow_estimator.python.estimator import training

    listener = training._ContinuousEvalListener()
    executor = training._TrainingExecutor(
        estimator, et.TrainSpec(input_fn, max_steps=2), et.EvalSpec(input_fn), continuous_eval_listener=listener
    )
    metrics, exports = executor.run()
    assert metrics["global_step"] == 2 and exports == []
    for wrong, message in [
        ({"train_spec": 3}, "`train_spec` must have type"),
        ({"eval_spec": 3}, "`eval_spec` must have type"),
        ({"continuous_eval_listener": 3}, "`continuous_eval_listener` must have type"),
    ]:
        specs = {"train_spec": et.TrainSpec(input_fn), "eval_spec": et.EvalSpec(input_fn)}
        with pytest.raises(TypeError, match=message):
            training._TrainingExecutor(estimator, **specs | wrong)
