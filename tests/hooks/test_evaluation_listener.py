"""EvaluationListeners hear of each evaluation once: from an EvalSpec, as hooks, and in a cluster's evaluator."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import FAR, approaching, label, maker

import estimator_train as et

AT_5 = label(5.0, 1)  # its loss is |5 - step|


class Ear(et.EvaluationListener):
    """Keeps what it hears: (step, loss, whether it is final)."""

    def __init__(self):
        self.heard = []

    def after_evaluation(self, estimator, checkpoint_path, eval_result, is_final):
        assert checkpoint_path == os.path.join(estimator.model_dir, f"model.ckpt-{eval_result['global_step']}")
        self.heard.append((eval_result["global_step"], eval_result["loss"], is_final))


class HookWithEar(et.SessionRunHook, et.EvaluationListener):
    def __init__(self):
        self.events = []

    def after_evaluation(self, estimator, checkpoint_path, eval_result, is_final):
        self.events.append({**eval_result, "is_final": is_final})

    def end(self, session):
        self.events.append("end")


@pytest.fixture
def make_estimator(tmp_path):
    quiet = {"save_summary_steps": None, "checkpoint_save_graph_def": False}
    return maker(approaching, "model_fn", tmp_path / "run", save_checkpoints_steps=2, **quiet)


def spec(listeners=(), input_fn=AT_5, **settings):
    return et.EvalSpec(input_fn, None, start_delay_secs=0, throttle_secs=0, listeners=listeners, **settings)


def test_listeners_hear_of_each_evaluation_once_and_whether_it_is_the_last(make_estimator):
    ear, other = Ear(), Ear()
    et.train_and_evaluate(make_estimator(), et.TrainSpec(FAR, max_steps=5), spec([ear, other]))
    assert ear.heard == other.heard == [(2, 3, False), (4, 1, False), (5, 0, True)]
    resumed = Ear()
    et.train_and_evaluate(make_estimator(), et.TrainSpec(FAR, max_steps=6), spec([resumed]))
    assert resumed.heard == [(5, 0, False), (6, 1, True)]


def test_an_end_known_only_after_the_evaluation_is_not_heard_again(make_estimator):
    ear = Ear()
    et.train_and_evaluate(make_estimator(), et.TrainSpec(label(1e3, 4)), spec([ear]))
    assert ear.heard == [(2, 3, False), (4, 1, False)]


def test_exporters_are_done_before_listeners_hear(make_estimator):
    best = []

    class Best(Ear):
        def after_evaluation(self, estimator, checkpoint_path, eval_result, is_final):
            directory = os.path.join(estimator.model_dir, "export", "best_checkpoint")
            best.append(os.path.basename(tf.train.latest_checkpoint(directory)))

    exporter = et.BestCheckpointExporter()
    et.train_and_evaluate(make_estimator(), et.TrainSpec(FAR, max_steps=8), spec([Best()], exporters=exporter))
    assert best == ["model.ckpt-2", "model.ckpt-4", "model.ckpt-4", "model.ckpt-4"]


@pytest.mark.parametrize(("weight", "last"), [(8.0, [(4, 1, False), (4, 3, True)]), (None, [(4, 1, False)])])
def test_the_last_checkpoint_is_heard_again_if_a_callback_changed_it(weight, last, tmp_path):
    def change(logs=None):
        if weight is not None:
            callback.model.set_weights([np.array([[weight]])])

    callback, ear = keras.callbacks.LambdaCallback(on_train_end=change), Ear()
    config = et.RunConfig(tmp_path / "run", save_checkpoints_steps=2, checkpoint_save_graph_def=False)
    train_spec = et.TrainSpec(FAR, max_steps=4, hooks=[et.CallbacksHook(callback)])
    et.train_and_evaluate(approaching("keras", config), train_spec, spec([ear]))
    assert ear.heard == [(2, 3, False), *last]


def test_a_hook_that_listens_hears_of_all_evaluations_before_its_end(make_estimator):
    make_estimator().train(FAR, max_steps=1)
    hook = HookWithEar()
    specs = [spec(name="near", every_steps=3), spec(input_fn=label(9.0, 1), name="far", every_steps=4)]
    et.train_and_evaluate(make_estimator(), et.TrainSpec(FAR, max_steps=4, hooks=[hook]), specs)
    near = {"loss": 2, "mse": 4, "global_step": 3}
    assert hook.events == [
        near | {"is_final": False},
        {"loss": 1, "mse": 1, "global_step": 4, "is_final": False},
        {"far_loss": 5, "far_mse": 25, "global_step": 4, "is_final": False},
        "end",
    ]


def test_the_evaluator_of_a_cluster_calls_the_listeners(make_estimator, monkeypatch):
    make_estimator().train(FAR, max_steps=2)
    task = {"cluster": {"chief": ["localhost:1"]}, "task": {"type": "evaluator", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    ear, hook = Ear(), HookWithEar()
    train_spec = et.TrainSpec(FAR, max_steps=2, hooks=[hook])
    assert et.train_and_evaluate(make_estimator(), train_spec, spec([ear])) is None
    assert ear.heard == [(2, 3, True)] and not hook.events


def test_an_error_of_a_listener_ends_the_training(make_estimator):
    class Fails(Ear):
        def after_evaluation(self, estimator, checkpoint_path, eval_result, is_final):
            raise OSError("no space left")

    estimator = make_estimator()
    with pytest.raises(OSError, match="no space left"):
        et.train_and_evaluate(estimator, et.TrainSpec(FAR, max_steps=8), spec([Fails()]))
    assert estimator.get_variable_value("global_step") == 2
