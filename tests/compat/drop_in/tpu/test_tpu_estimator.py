"""TPUEstimator where there is no TPU; examples/legacy/tpu_estimator.py has the numbers of TensorFlow 2.15."""

import numpy as np
import pytest
import tensorflow as tf
from models import events

import estimator_train as et
from estimator_train.compat.drop_in.tpu import RunConfig, TPUConfig, TPUEstimator, TPUEstimatorSpec
from estimator_train.compat.drop_in.tpu.tpu_estimator import _HostCallHook

v1 = tf.compat.v1

VALUES = np.arange(10, dtype=np.float32)


def input_fn(params):
    return tf.data.Dataset.from_tensor_slices((VALUES[:, None], 2 * VALUES)).batch(params.get("batch_size", 3))


def model_fn(features, labels, mode, params):
    params["seen"].append((mode, params.get("batch_size"), params["use_tpu"]))
    weight = v1.get_variable("weight", [1, 1], initializer=v1.zeros_initializer())
    predictions = tf.squeeze(features @ weight, -1)
    if mode == et.ModeKeys.PREDICT:
        return TPUEstimatorSpec(mode, predictions={"value": predictions})
    loss = tf.reduce_mean(tf.square(predictions - labels))
    step = v1.train.get_global_step()

    def host_call(losses, step):
        with tf.summary.create_file_writer(params["host_dir"]).as_default():
            tf.summary.write("host_loss", losses[0], step=step[0])
        return v1.summary.all_v2_summary_ops()

    return TPUEstimatorSpec(
        mode,
        loss=loss,
        train_op=v1.train.GradientDescentOptimizer(0.01).minimize(loss, step) if mode == et.ModeKeys.TRAIN else None,
        eval_metrics=(lambda labels, values: {"mae": v1.metrics.mean_absolute_error(labels, values)},
                      {"labels": labels, "values": predictions}),
        host_call=(host_call, [tf.reshape(loss, [1]), tf.reshape(step, [1])]),
    )  # fmt: skip


class _Seen(list):
    """A list that is itself in copies of the params that hold it."""

    def __deepcopy__(self, memo):
        return self


def test_every_mode_has_its_batch_size_and_the_host_call_runs_each_step(tmp_path, log_lines):
    seen = _Seen()
    estimator = TPUEstimator(
        model_fn,
        config=RunConfig(model_dir=tmp_path / "run", log_step_count_steps=2),
        params={"seen": seen, "host_dir": str(tmp_path / "host")},
        use_tpu=False,
        train_batch_size=4,
        eval_batch_size=5,
        predict_batch_size=6,
    )
    estimator.train(input_fn, steps=3)
    assert estimator.get_variable_value("global_step") == 3  # batches of 4, 4 and 2
    assert [tag for _, tag, _ in events(tmp_path / "host") if tag == "host_loss"] == ["host_loss"] * 3
    assert [step for step, tag, _ in events(tmp_path / "run") if tag == "examples/sec"] == [2]
    assert any("examples/sec: " in line for line in log_lines)

    metrics = estimator.evaluate(input_fn)
    weight = estimator.get_variable_value("weight").item()
    assert metrics["mae"] == pytest.approx(np.mean(np.abs(2 * VALUES - weight * VALUES)), rel=1e-6)
    assert len(list(estimator.predict(input_fn))) == len(VALUES)

    def receiver():
        values = v1.placeholder(tf.float32, [None, 1])
        return et.export.TensorServingInputReceiver(values, values)

    estimator.export_saved_model(tmp_path / "export", receiver)
    assert seen == [("train", 4, False), ("eval", 5, False), ("infer", 6, False), ("infer", None, False)]
    again, _ = et.train_and_evaluate(estimator, et.TrainSpec(input_fn, max_steps=3), et.EvalSpec(input_fn))
    assert again == metrics
    assert "batch_size" not in estimator.params and isinstance(estimator.config, RunConfig)


def test_estimator_specs_and_input_fns_without_params_are_accepted(tmp_path):
    def plain_model_fn(features, labels, mode):
        step = v1.train.get_global_step()
        return et.EstimatorSpec(mode, loss=tf.reduce_mean(features), train_op=step.assign_add(1))

    estimator = TPUEstimator(plain_model_fn, tmp_path, RunConfig(), use_tpu=False)
    estimator.train(lambda: input_fn({}), steps=1)
    assert estimator.get_variable_value("global_step") == 1


def test_params_may_be_hyperparameters_of_tf_contrib(tmp_path):
    class HParams:  # the part of it that counts
        def add_hparam(self, name, value):
            assert name not in self
            setattr(self, name, value)

        def set_hparam(self, name, value):
            assert name in self
            setattr(self, name, value)

        def __contains__(self, name):
            return hasattr(self, name)

    def model_fn(features, labels, mode, params):
        assert (params.batch_size, params.use_tpu) == (4, False)
        step = v1.train.get_global_step()
        return TPUEstimatorSpec(mode, loss=tf.reduce_mean(features), train_op=step.assign_add(1))

    given = HParams()
    estimator = TPUEstimator(model_fn, tmp_path, RunConfig(), given, use_tpu=False, train_batch_size=4)
    estimator.train(lambda params: tf.data.Dataset.from_tensors(VALUES).batch(params.batch_size).repeat(), steps=1)
    assert vars(given) == {} and "batch_size" not in estimator.params


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"use_tpu": True}, r"TPUEstimator\(use_tpu=False\) runs on CPUs"),
        ({"embedding_config_spec": object()}, "embeddings are not supported"),
        ({"config": None}, "type tpu_config.RunConfig, given: None"),
        ({"config": et.RunConfig()}, "type tpu_config.RunConfig"),
        ({"params": {"batch_size": 3}}, r"reserved keys but existed in params \{'batch_size': 3\}"),
        ({"params": {"context": 3}}, "reserved keys"),
        ({"train_batch_size": -1}, "positive int, given: -1"),
        ({"eval_batch_size": 2.5}, "positive int, given: 2.5"),
        ({"model_fn": lambda features: None, "train_batch_size": 2}, "model_fn .* does not include params"),
        ({"model_fn": lambda features, hamster: None}, "not expected args: .*hamster"),
    ],
)
def test_what_cannot_be_served_is_refused_when_made(arguments, message):
    defaults = {"model_fn": model_fn, "config": RunConfig(), "use_tpu": False}
    with pytest.raises(ValueError, match=message):
        TPUEstimator(**defaults | arguments)


def test_an_input_fn_without_params_is_refused_if_it_needs_the_batch_size(tmp_path):
    estimator = TPUEstimator(model_fn, tmp_path, RunConfig(), use_tpu=False, train_batch_size=2)
    with pytest.raises(ValueError, match="input_fn .* does not include params"):
        estimator.train(lambda: None, steps=1)


def test_subclasses_may_derive_from_estimator_and_tpu_estimator():
    class Growing(et.Estimator):  # as in adanet
        def __init__(self, **kwargs):
            self.grown = True
            super().__init__(model_fn=model_fn, **kwargs)

    class Both(Growing, TPUEstimator):
        pass

    class Straight(et.Estimator, TPUEstimator):
        pass

    for kind, arguments in ((Both, {}), (Straight, {"model_fn": model_fn})):
        made = kind(config=RunConfig(), use_tpu=False, train_batch_size=2, **arguments)
        assert isinstance(made, TPUEstimator) and made._params_in("train") == {"batch_size": 2}
    assert Both.__mro__[1:3] == (Growing, TPUEstimator)


def test_a_spec_is_an_estimator_spec_with_its_functions_called():
    with tf.Graph().as_default():
        value = tf.constant([1.0])
        hook = v1.train.StopAtStepHook(2)
        scaffold = v1.train.Scaffold()
        spec = TPUEstimatorSpec(
            "train",
            loss=value[0],
            train_op=tf.no_op(),
            eval_metrics=(lambda x, y: {"sum": (x + y, x)}, [value, value]),
            scaffold_fn=lambda: scaffold,
            host_call=(lambda: None, []),
            training_hooks=[hook],
        ).as_estimator_spec()
    assert type(spec) is et.EstimatorSpec and spec.scaffold is scaffold and list(spec.eval_metric_ops) == ["sum"]
    assert spec.training_hooks[0] is hook
    for hooks in (spec.training_hooks[1:], spec.evaluation_hooks, spec.prediction_hooks):
        assert [type(each) for each in hooks] == [_HostCallHook]


@pytest.mark.parametrize("name", ["eval_metrics", "host_call"])
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (3, ValueError, "tuple or list of two"),
        ((len,), ValueError, "tuple or list of two"),
        ((3, []), TypeError, r"\[0\] should be callable"),
        ((len, "x"), ValueError, r"\[1\] should be tuple or list, or dict"),
        ((lambda x: x, [1, 2]), RuntimeError, "length of tensors 2 does not match"),
    ],
)
def test_a_wrong_pair_of_function_and_tensors_is_refused(name, given, error, message):
    with pytest.raises(error, match=f"{name}.*{message}|{message}.*{name}"):
        TPUEstimatorSpec("eval", **{name: given})


def test_the_old_paths_lead_here():
    et.install()
    from tensorflow_estimator.python.estimator.tpu import tpu_config, tpu_estimator

    assert v1.estimator.tpu.TPUEstimator is tpu_estimator.TPUEstimator is TPUEstimator
    assert v1.estimator.tpu.RunConfig is tpu_config.RunConfig is RunConfig
    from tensorflow.python.estimator.tpu.tpu_config import TPUConfig as of_tf1
    from tensorflow_estimator.python.estimator.tpu.tpu_estimator import ExportSavedModelApiVersion

    assert of_tf1 is TPUConfig and ExportSavedModelApiVersion.V2.value == 2
