from types import SimpleNamespace

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train._engine.model_fn import EstimatorSpec, Run
from estimator_train._engine.remedies import UserError
from estimator_train._engine.training_hooks import EvalProgressHook, LogLossHook, StopIfAlreadyDone, training_hooks

v1 = tf.compat.v1


@pytest.fixture
def step(graph):
    return v1.train.create_global_step()


@pytest.fixture
def one_step(step):
    """Returns the training op of a graph whose global step it increments."""
    return v1.assign_add(step, 1)


def names_of_hooks(tmp_path, one_step, user_hooks=(), listeners=(), stop_at=(None, None), **config):
    spec = EstimatorSpec("train", loss=tf.constant(2.5), train_op=one_step)
    config = et.RunConfig(tmp_path / "run", **config)
    run = Run(one_step.graph, spec, session_creator=None)
    return [type(hook).__name__ for hook in training_hooks(run, config, user_hooks, listeners, stop_at)]


def train(one_step, hooks, most=10):
    """Trains until a hook stops the session; returns the step reached."""
    with v1.train.SingularMonitoredSession(hooks) as session:
        while not session.should_stop() and most:
            session.run(one_step)
            most -= 1
        return session.raw_session().run(v1.train.get_global_step())


def test_users_hooks_come_after_savers_and_before_what_ends_training(tmp_path, one_step):
    own = et.LoggingTensorHook(["x"], every_n_iter=1)
    assert names_of_hooks(tmp_path, one_step, [own], stop_at=(3, None)) == [
        *("SaverHook", "StepCounterHook", "SummarySaverHook", "LoggingTensorHook"),
        *("StopAtStepHook", "NanTensorHook", "LogLossHook", "StopIfAlreadyDone"),
    ]


def test_a_config_without_checkpoints_summaries_and_log_needs_few_hooks(tmp_path, one_step):
    nothing = {"save_checkpoints_secs": None, "save_summary_steps": None, "log_step_count_steps": None}
    assert names_of_hooks(tmp_path, one_step, **nothing) == ["NanTensorHook", "StopIfAlreadyDone"]
    with pytest.raises(ValueError, match="There should be a CheckpointSaverHook to use saving_listeners"):
        names_of_hooks(tmp_path, one_step, listeners=[et.CheckpointSaverListener()], **nothing)


def test_the_loss_is_logged_every_so_many_steps(step, log_lines):
    hook = LogLossHook(tf.constant(2.5), every_steps=2)
    hook.begin()
    for number in range(1, 6):
        hook.after_run(None, SimpleNamespace(results={"loss": 2.5, "step": number}))
    lines = [line.partition(" (") for line in log_lines]
    assert [line for line, *_ in lines] == [f"loss = 2.5, step = {number}" for number in (1, 3, 5)]
    assert [seconds.endswith(" sec)") for *_, seconds in lines] == [False, True, True]


@pytest.mark.parametrize(("reached", "steps"), [(2, 3), (5, 0), (7, 0)])
def test_no_step_is_made_if_the_last_is_reached(reached, steps, step, one_step):
    stop = et.StopAtStepHook(last_step=5)
    restored = v1.train.Scaffold(local_init_op=step.assign(reached))
    hooks = [stop, StopIfAlreadyDone([stop])]
    with v1.train.MonitoredSession(v1.train.ChiefSessionCreator(restored), hooks) as session:
        while not session.should_stop():
            session.run(one_step)
            steps -= 1
    assert steps == 0


@pytest.mark.parametrize(("limit", "logged"), [(3, [1, 2, 3]), (25, [*range(2, 25, 2), 25])])
def test_an_evaluation_stops_at_its_limit_and_logs_a_tenth_each(limit, logged, one_step, log_lines):
    assert train(one_step, [EvalProgressHook(limit)], most=100) == limit
    assert [line for line in log_lines if line.startswith("Evaluation [")] == [
        f"Evaluation [{batch}/{limit}]" for batch in logged
    ]


def test_an_evaluation_without_data_is_one_line_to_the_user(one_step):
    with pytest.raises(ValueError, match="evaluate got no data") as refusal:
        train(one_step, [EvalProgressHook(None)], most=0)
    assert isinstance(refusal.value, UserError)
