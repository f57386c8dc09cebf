"""tf.contrib.learn.Experiment: what TensorFlow 1.15's did with a tf.estimator, and when it evaluated.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran these tests once with
`learn = tf.contrib.learn`, and trains, evaluates and exports the same. But train_and_evaluate looks for a checkpoint
every five seconds at most there: it evaluates after steps 0 and 5. continuous_train_and_eval trains a tenth of
train_steps at a time there, unless train_steps_per_iteration says how many, and goes beyond train_steps: with 2 it
evaluates after steps 2, 4 and 6. And it takes checkpoint_and_export and a predicate.
"""

import json

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train.compat.tf1.contrib import learn

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    weight = v1.get_variable("weight", initializer=0.0)
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, predictions={"y": features * weight})
    loss = (features * weight - labels) ** 2
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    metrics = {"weight": v1.metrics.mean(weight)}
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def input_fn():
    return tf.data.Dataset.from_tensors((1.0, 1.0)).repeat(20)


def serving_input_fn():
    features = v1.placeholder(tf.float32, [])
    return et.export.TensorServingInputReceiver(features, features)


def estimator(folder, save_steps=2):
    quiet = {"save_summary_steps": None, "checkpoint_save_graph_def": False}
    return et.Estimator(model_fn, folder, et.RunConfig(save_checkpoints_steps=save_steps, **quiet))


class Evaluations(et.SessionRunHook):
    """Notes the global step of each evaluation."""

    def __init__(self):
        self.steps = []

    def end(self, session):
        self.steps.append(int(session.run(v1.train.get_global_step())))


@pytest.mark.parametrize(
    "task", ["train_and_evaluate", pytest.param("continuous_train_and_eval", marks=pytest.mark.slow)]
)
def test_an_experiment_evaluates_each_checkpoint(task, tmp_path):
    hook = Evaluations()
    strategy = learn.make_export_strategy(serving_input_fn, exports_to_keep=1)
    experiment = learn.Experiment(
        estimator(tmp_path), input_fn, input_fn, None, 5, 3, eval_hooks=[hook],
        export_strategies=[strategy],
    )  # fmt: skip
    metrics, exports = getattr(experiment, task)()
    assert hook.steps == [2, 4, 5]
    # w = 1 - 0.8 ** steps for the loss (w - 1) ** 2 and the rate 0.1.
    assert metrics["global_step"] == 5 and metrics["weight"] == pytest.approx(1 - 0.8**5)
    assert [path.parent.name for path in (tmp_path / "export").glob("*/*")] == ["Servo"] and len(exports) == 1
    assert (
        experiment.train_steps == 5 and experiment.eval_steps == 3 and experiment.estimator.model_dir == str(tmp_path)
    )


def test_an_experiment_trains_evaluates_and_tests_by_itself(tmp_path):
    experiment = learn.Experiment(estimator(tmp_path), input_fn, input_fn, train_steps=3)
    hook = Evaluations()
    experiment.extend_train_hooks([hook])
    assert experiment.train(delay_secs=0) is experiment.estimator and hook.steps == [3]
    assert experiment.evaluate(name="mine")["global_step"] == 3 and (tmp_path / "eval_mine").is_dir()
    assert experiment.test()["global_step"] == 4 and hook.steps == [3, 4]
    experiment.train()
    assert hook.steps == [3, 4]  # train_steps is the last global step


def test_an_evaluator_of_a_cluster_waits_as_long_as_it_is_asked_to(tmp_path, monkeypatch):
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    config = {"cluster": cluster, "task": {"type": "evaluator", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    given = []
    ours = "estimator_train.compat.tf1.learn.experiment.train_and_evaluate"
    monkeypatch.setattr(ours, lambda estimator, train, evaluation: given.append(evaluation))
    delays = {"eval_delay_secs": 7, "continuous_eval_throttle_secs": 8}
    learn.Experiment(estimator(tmp_path), input_fn, input_fn, **delays).train_and_evaluate()
    assert (given[0].start_delay_secs, given[0].throttle_secs) == (7, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": object()}, "`estimator` must be a `tf.estimator.Estimator`, given: <object"),
        ({"eval_metrics": {}}, "`eval_metrics` must be `None` with .*Use `eval_metric_ops`"),
        ({"checkpoint_and_export": True}, "pass a tf.estimator.LatestExporter in export_strategies"),
    ],
)
def test_what_an_experiment_cannot_do_with_a_tf_estimator_is_refused(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        learn.Experiment(
            **{"estimator": estimator(tmp_path), "train_input_fn": input_fn, "eval_input_fn": input_fn} | arguments
        )


def test_a_predicate_and_a_key_of_contribs_own_estimators_are_refused(tmp_path):
    with pytest.raises(ValueError, match="continuous_eval_predicate_fn is not supported: stop by a hook"):
        learn.Experiment(estimator(tmp_path), input_fn, input_fn).continuous_train_and_eval(bool)
    with pytest.raises(ValueError, match="default_output_alternative_key is not supported in core Estimator. Given: a"):
        learn.make_export_strategy(serving_input_fn, "a")
