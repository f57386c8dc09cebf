"""Early-stopping hooks stop trainings at the step that evaluations tell, under every strategy and on any checkpoint."""

import numpy as np
import pytest
import tensorflow as tf
from models import FAR, KINDS, approaching, approaching_model_fn, label, maker
from slow_cases import both_kinds

import estimator_train as et
from estimator_train import experimental as early
from estimator_train.hooks import early_stopping

v1 = tf.compat.v1
EVERY_STEP = {"run_every_secs": None, "run_every_steps": 1}


@pytest.fixture(params=KINDS)
def make_estimator(request, tmp_path):
    quiet = {"log_step_count_steps": None, "save_summary_steps": None, "checkpoint_save_graph_def": False}
    return maker(approaching, request.param, tmp_path / "run", save_checkpoints_steps=2, **quiet)


# Hooks see the same with both kinds of models; tests that do not depend on the kind use the faster one.
of_model_fn = pytest.mark.parametrize("make_estimator", ["model_fn"], indirect=True)


fast_model_fn = both_kinds("make_estimator", "model_fn")


@pytest.fixture
def estimator(tmp_path):
    config = et.RunConfig(tmp_path / "run", save_summary_steps=None, checkpoint_save_graph_def=False)
    return et.Estimator(approaching_model_fn, config=config)


AT_5 = et.EvalSpec(label(5.0, 1), throttle_secs=0)  # the loss of step 2 is 3, of 4 it is 1, of 6 1, of 8 3, of 10 5


def steps_trained(estimator):
    checkpoint = estimator.latest_checkpoint()
    return 0 if checkpoint is None else int(checkpoint.rpartition("-")[2])


def write_losses(folder, losses):
    """Writes the events of evaluations, from a dict of steps to losses."""
    with tf.Graph().as_default(), v1.summary.FileWriter(folder) as writer:
        for step, loss in losses.items():
            writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="loss", simple_value=loss)]), step)


# the step


@pytest.mark.slow
@of_model_fn
@pytest.mark.parametrize(
    ("make_hook", "last"),
    [
        (lambda estimator: early.stop_if_no_decrease_hook(estimator, "loss", 4, **EVERY_STEP), 8),
        (lambda estimator: early.stop_if_lower_hook(estimator, "loss", 2, run_every_secs=0), 4),
    ],
    ids=["no decrease", "lower"],
)
def test_training_stops_at_the_first_step_whose_evaluation_asks_for_it(make_hook, last, make_estimator):
    estimator = make_estimator()
    hooks = [make_hook(estimator)]
    metrics, _ = et.train_and_evaluate(estimator, et.TrainSpec(FAR, hooks=hooks, max_steps=12), AT_5)
    assert metrics["global_step"] == steps_trained(estimator) == last


NO_DECREASE, NO_INCREASE = early.stop_if_no_decrease_hook, early.stop_if_no_increase_hook


@pytest.mark.parametrize(
    ("make_hook", "limit", "min_steps", "losses", "stops"),
    [
        (NO_DECREASE, 20, 0, {0: 3.0, 10: 2.0, 20: 2.0, 29: 5.0}, False),
        (NO_DECREASE, 20, 0, {0: 3.0, 10: 2.0, 20: 2.0, 30: 5.0}, True),
        (NO_DECREASE, 20, 0, {0: 3.0, 10: 2.0, 30: 1.0}, False),
        (NO_DECREASE, 20, 0, {0: 3.0, 10: 2.0, 30: 2.0, 40: 1.0}, True),  # it had to stop at 30
        (NO_DECREASE, 20, 15, {0: 1.0, 10: 2.0, 20: 5.0, 30: 6.0}, False),
        (NO_DECREASE, 20, 0, {}, False),
        (NO_DECREASE, 20, 0, {0: np.nan, 10: 3.0, 20: 2.0}, False),
        (NO_DECREASE, 20, 0, {0: np.nan, 10: np.nan, 20: np.nan}, True),
        (NO_INCREASE, 20, 0, {0: 1.0, 10: 2.0, 20: 2.0, 30: 1.0}, True),
        (NO_INCREASE, 20, 0, {0: 1.0, 10: 2.0, 20: 2.5, 30: 1.0}, False),
        (early.stop_if_higher_hook, 2.0, 0, {0: 2.0, 10: 1.0}, False),
        (early.stop_if_higher_hook, 2.0, 0, {0: 2.5, 10: 1.0}, True),
        (early.stop_if_higher_hook, 2.0, 5, {0: 2.5, 10: 1.0}, False),
        (early.stop_if_lower_hook, 2.0, 0, {0: 2.0, 10: 3.0}, False),
        (early.stop_if_lower_hook, 2.0, 10, {0: 3.0, 10: 1.5}, True),
        (early.stop_if_lower_hook, 2.0, 11, {0: 3.0, 10: 1.5}, False),
    ],
)
def test_evaluations_in_the_events_tell_when_to_stop(make_hook, limit, min_steps, losses, stops, estimator):
    write_losses(estimator.eval_dir(), losses)
    hook = make_hook(estimator, "loss", limit, min_steps=min_steps, **EVERY_STEP)
    steps = 0
    with tf.Graph().as_default():
        step = v1.train.create_global_step().assign_add(1)
        with v1.train.MonitoredSession(hooks=[hook]) as session:
            while steps < 3 and not session.should_stop():
                steps = session.run(step)
    assert steps == (1 if stops else 3)


def test_evaluations_of_later_steps_are_left_out_on_request(estimator):
    write_losses(estimator.eval_dir(), {1: 2.0, 2: 2.0, 3: 1.0, 6: 3.0})
    hook = early.stop_if_no_decrease_hook(estimator, "loss", 3, **EVERY_STEP)
    hook.leave_out_later_steps()
    estimator.train(FAR, hooks=[hook], steps=5)
    assert steps_trained(estimator) == 5
    assert [hook.has_stopped(step) for step in (5, 6)] == [False, True]


# how often


@pytest.mark.parametrize(
    ("make_estimator", "interval", "called_after"),
    [
        pytest.param("keras", {"run_every_secs": None, "run_every_steps": 4}, [1, 5, 9], marks=pytest.mark.slow),
        ("model_fn", {"run_every_secs": 0}, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("model_fn", {}, [1]),
    ],
    indirect=["make_estimator"],
)
def test_should_stop_fn_is_called_after_step_1_and_then_at_the_interval(interval, called_after, make_estimator):
    estimator = make_estimator(save_checkpoints_steps=1)
    calls = []
    hook = early.make_early_stopping_hook(estimator, lambda: calls.append(steps_trained(estimator)), **interval)
    estimator.train(FAR, hooks=[hook], steps=9)
    assert calls == called_after


@of_model_fn
def test_the_step_that_early_stopping_logs_is_the_last(make_estimator, log_lines):
    estimator = make_estimator()
    hook = early.make_early_stopping_hook(estimator, lambda: True, **EVERY_STEP)
    estimator.train(FAR, hooks=[hook])
    assert "Requesting early stopping at global step 1" in log_lines
    assert steps_trained(estimator) == 1


def test_periodic_hooks_keep_their_interval_with_several_steps_a_call(tmp_path):
    config = et.RunConfig(
        tmp_path, steps_per_loop=4, save_checkpoints_steps=4, save_summary_steps=None, log_step_count_steps=None
    )
    estimator = approaching("keras", config)
    calls = []
    hook = early.make_early_stopping_hook(
        estimator, lambda: calls.append(steps_trained(estimator)), run_every_secs=None, run_every_steps=4
    )
    estimator.train(FAR, hooks=[hook], steps=16)
    assert calls == [4, 8, 12, 16]


# strategies


@pytest.mark.slow
@pytest.mark.parametrize("make_estimator", ["model_fn", "keras"], indirect=True)
def test_the_hooks_work_under_a_strategy_with_both_intervals(make_estimator, mirrored):
    estimator = make_estimator(train_distribute=mirrored(2))
    default = early.stop_if_higher_hook(estimator, "loss", 5)
    lower = early.stop_if_lower_hook(estimator, "loss", 2, **EVERY_STEP)
    metrics, _ = et.train_and_evaluate(estimator, et.TrainSpec(FAR, hooks=[default, lower], max_steps=6), AT_5)
    assert (metrics["loss"], metrics["global_step"]) == (1, 4)


# which evaluation, which metric


@of_model_fn
def test_an_unknown_metric_is_an_error_before_training(make_estimator):
    estimator = make_estimator()
    hook = early.stop_if_lower_hook(estimator, "los", 2)
    with pytest.raises(ValueError, match="^metric_name='los': the evaluation has no such metric; it has loss, mse$"):
        et.train_and_evaluate(estimator, et.TrainSpec(FAR, hooks=[hook], max_steps=4), AT_5)
    assert steps_trained(estimator) == 0


@pytest.mark.slow
@of_model_fn
def test_evaluations_are_read_once_however_often_the_hook_is_asked(make_estimator, monkeypatch):
    estimator, steps = make_estimator(), []
    read = early_stopping.read_eval_metrics
    monkeypatch.setattr(early_stopping, "read_eval_metrics", lambda pattern: steps.append(read(pattern)) or steps[-1])
    for max_steps in (5, 7):  # a hook is reset by each training
        hook = early.stop_if_lower_hook(estimator, "loss", 0.5, **EVERY_STEP)
        et.train_and_evaluate(estimator, et.TrainSpec(FAR, hooks=[hook], max_steps=max_steps), AT_5)
    assert [max(results, default=None) for results in steps] == [None, 2, 4, 6]


def test_an_unknown_metric_is_an_error_outside_of_train_and_evaluate(estimator):
    write_losses(estimator.eval_dir(), {1: 1.0})
    with pytest.raises(ValueError, match="^metric_name='los': the evaluation has no such metric; it has loss$"):
        estimator.train(FAR, hooks=[early.stop_if_lower_hook(estimator, "los", 2)], steps=1)


@of_model_fn
def test_the_only_evaluation_is_watched_whatever_its_name(make_estimator):
    estimator = make_estimator()
    hook = early.stop_if_lower_hook(estimator, "loss", 2, **EVERY_STEP)
    eval_spec = AT_5._replace(name="val")
    metrics, _ = et.train_and_evaluate(estimator, et.TrainSpec(FAR, hooks=[hook], max_steps=6), eval_spec)
    assert metrics["global_step"] == 4


@pytest.mark.slow
def test_the_unnamed_evaluation_or_the_one_in_eval_dir_is_watched(estimator):
    far = et.EvalSpec(FAR, steps=1, name="far", throttle_secs=0)
    estimator = et.Estimator(approaching_model_fn, estimator.model_dir, et.RunConfig(save_checkpoints_steps=2))
    unnamed = early.stop_if_lower_hook(estimator, "loss", 2, **EVERY_STEP)
    et.train_and_evaluate(estimator, et.TrainSpec(FAR, hooks=[unnamed], max_steps=8), [far, AT_5])
    assert steps_trained(estimator) == 4
    val = early.stop_if_higher_hook(estimator, "loss", 2, estimator.eval_dir("val"), min_steps=6, **EVERY_STEP)
    specs = [far, AT_5._replace(name="val")]
    et.train_and_evaluate(estimator, et.TrainSpec(FAR, hooks=[val], max_steps=12), specs)
    assert steps_trained(estimator) == 8


def test_several_named_evaluations_need_an_eval_dir(estimator):
    hook = early.stop_if_lower_hook(estimator, "loss", 2)
    specs = [AT_5._replace(name=name) for name in ("a", "b")]
    with pytest.raises(ValueError, match=r"needs eval_dir=.* \['a', 'b'\]"):
        et.train_and_evaluate(estimator, et.TrainSpec(FAR, hooks=[hook], max_steps=2), specs)
    assert steps_trained(estimator) == 0


# checkpoints


@fast_model_fn
def test_checkpoints_are_the_same_with_and_without_the_hook(make_estimator):
    estimator = make_estimator()

    def train(hooked):
        hooks = [early.make_early_stopping_hook(estimator, lambda: False, **EVERY_STEP)] if hooked else []
        estimator.train(FAR, hooks=hooks, steps=1)
        return estimator.get_variable_names()

    assert train(hooked=False) == train(hooked=True) == train(hooked=False)
    assert estimator.get_variable_value("global_step") == 3
    assert estimator.evaluate(AT_5.input_fn)["loss"] == 2


# make_stop_at_checkpoint_step_hook


@fast_model_fn
def test_the_chief_stops_at_the_checkpoint_step(make_estimator):
    estimator = make_estimator()
    estimator.train(FAR, hooks=[early.make_stop_at_checkpoint_step_hook(estimator, 3)], max_steps=9)
    assert steps_trained(estimator) == 3


def test_a_worker_stops_once_the_step_is_in_a_checkpoint(estimator, monkeypatch):
    cluster = (
        '{"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, "task": {"type": "worker", "index": 0}}'
    )
    monkeypatch.setenv("TF_CONFIG", cluster)
    worker = et.Estimator(approaching_model_fn, estimator.model_dir)
    hook = early.make_stop_at_checkpoint_step_hook(worker, 3, wait_after_file_check_secs=0)
    estimator.train(FAR, hooks=[hook], max_steps=4)  # the newest checkpoint is from step 0
    assert steps_trained(estimator) == 4
    estimator.train(FAR, hooks=[hook], max_steps=9)
    assert steps_trained(estimator) == 5
