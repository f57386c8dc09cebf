"""StepRunner: how many steps each call makes, and what a new session does after an error."""

import contextlib
import math

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train._engine.hooks import EpochHook
from estimator_train._engine.keras import loop
from estimator_train._engine.keras.run import StepRunner
from estimator_train._engine.session import step_outputs
from estimator_train._engine.types import SessionRunHook


class Loop:
    variables = ()
    batch_structure = {}
    takes_one_step = False

    def __init__(self, state):
        self.counts, self.resets, self._state = [], 0, state

    def trace(self, iterator):
        return {}, self._call

    def _call(self, iterator, count, seconds, wishes):
        next(iterator)
        self.counts.append(count)
        self.seconds = seconds
        self._state.global_step.assign_add(count)
        return {step_outputs.STEPS: count, step_outputs.EXAMPLES: 8 * count}

    def reset(self):
        self.resets += 1

    def batches_if_idle(self):
        return 3


class State:
    """Stands in for a `ModelState`."""

    strategy = tf.distribute.get_strategy()

    def __init__(self, step=0):
        self.global_step = tf.Variable(step, dtype=tf.int64)
        self.own_loop = Loop(self)
        self.events = []

    def loop(self, program, kind):
        self.kind_of_loop = kind
        return self.own_loop

    def check_variables(self, used):
        self.events.append("checked")

    def begin_steps(self):
        self.events.append("begun")

    def restart(self):
        self.events.append("restarted")
        self.global_step.assign(0)

    @contextlib.contextmanager
    def restored(self):
        self.events.append("before the data")
        yield
        self.events.append("after the trace")


class Training:
    mode = et.ModeKeys.TRAIN
    trains = True
    batches_per_step = 1


class Evaluation(Training):
    mode = et.ModeKeys.EVAL
    trains = False


class Epochs(EpochHook):
    def __init__(self, steps_per_epoch):
        self.steps_per_epoch = steps_per_epoch

    def next_look(self, global_step):
        return math.inf


class Looking(SessionRunHook):
    """Needs to see each step that is a multiple of `every`."""

    def __init__(self, every):
        self._every = every

    def next_look(self, global_step):
        return (global_step // self._every + 1) * self._every


class Ending(SessionRunHook):
    def end(self, session):
        raise NotImplementedError


class Counting(SessionRunHook):
    def after_run(self, run_context, run_values):
        raise NotImplementedError


def runner(state, last_step=None, hooks=(), program=Training, **config):
    config = {"save_checkpoints_steps": 100, "log_step_count_steps": None, "save_summary_steps": None} | config
    config = et.RunConfig("unused", **config)
    return StepRunner(state, program(), lambda: tf.data.Dataset.range(100), config, state.restored(), last_step, hooks)


def counts(calls, **options):
    state = State(options.pop("step", 0))
    run = runner(state, **options)
    run.start()
    for _ in range(calls):
        run()
    return state.own_loop.counts


def test_the_data_is_made_and_the_steps_traced_inside_of_the_restore():
    state = State()
    run = runner(state)
    assert state.events == ["before the data", "after the trace", "checked"]
    assert run.global_step == 0 and run.agreement is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"steps_per_loop": 4}, [4, 4, 4]),
        ({"steps_per_loop": 4, "last_step": 6}, [4, 2]),
        ({"steps_per_loop": 4, "save_checkpoints_steps": 6}, [4, 2, 4, 2]),
        ({"steps_per_loop": 10, "save_checkpoints_steps": 16, "step": 35}, [10, 3, 10, 6]),
        ({"steps_per_loop": 10, "log_step_count_steps": 5}, [1, 5, 5]),
        ({"steps_per_loop": 10, "save_summary_steps": 4}, [1, 3, 1, 3]),
        ({"steps_per_loop": 10, "log_step_count_steps": 5, "hooks": [Epochs(7)]}, [7, 7]),
        ({"steps_per_loop": 4, "step": 5, "hooks": [Epochs(7), Epochs(None)]}, [2, 4, 3]),
        ({"steps_per_loop": 4, "hooks": [Counting()]}, [4, 4]),
    ],
)
def test_a_call_ends_at_the_next_checkpoint_log_line_epoch_or_last_step(options, expected):
    assert counts(len(expected), **options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 99, 100]),
        ({"save_checkpoints_steps": None, "last_step": 30}, [1, 29]),
        ({"save_checkpoints_steps": 16, "step": 35}, [1, 12, 16]),
        ({"log_step_count_steps": 5, "hooks": [Epochs(7)]}, [1, 5, 1, 4]),
        ({"step": 4, "hooks": [Looking(8), Looking(6), Ending()]}, [1, 1, 2, 4, 4]),
        ({"hooks": [Looking(8), Counting()]}, [1, 1, 1]),
    ],
)
def test_by_default_a_call_ends_where_a_hook_needs_to_look(options, expected):
    assert counts(len(expected), **options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, loop.Loop),
        ({"steps_per_loop": 1}, loop.SingleSteps),
        ({"hooks": [Looking(1), Ending()]}, loop.Loop),
        ({"hooks": [Looking(8), Counting()]}, loop.SingleSteps),
        ({"steps_per_loop": 2, "hooks": [Counting()]}, loop.Loop),
        ({"steps_per_loop": 2, "program": Evaluation}, loop.SingleSteps),
    ],
)
def test_runs_whose_calls_all_make_one_step_do_without_a_loop(options, expected):
    state = State()
    runner(state, **options)
    assert state.kind_of_loop is expected


@pytest.mark.parametrize(("gpus", "by_default"), [([], 0.2), (["a GPU"], 0.8)])
def test_by_default_a_call_begins_no_step_after_a_fraction_of_a_second(gpus, by_default, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
    for settings, seconds in (({}, by_default), ({"steps_per_loop": 3}, 1e9)):
        state = State()
        run = runner(state, **settings)
        run.start()
        run()
        assert state.own_loop.seconds == seconds


def test_an_evaluation_makes_one_step_a_call_and_changes_no_state():
    state = State(step=5)
    run = runner(state, program=Evaluation, steps_per_loop=9)
    run.start()
    run()
    assert state.own_loop.counts == [1] and run.global_step == 5
    assert "begun" not in state.events
    run.start()
    assert "restarted" not in state.events


def test_a_session_after_an_error_restarts_with_new_data():
    state = State()
    run = runner(state, steps_per_loop=2)
    run.start()
    run()
    first = run._iterators[0]
    assert run.global_step == 2 and "restarted" not in state.events
    run.start()
    assert state.events[-1] == "restarted" and run.global_step == 0
    assert run._iterators[0] is not first and state.own_loop.resets == 2


def test_a_loop_that_the_state_has_replaced_is_traced_again():
    state = State()
    run = runner(state)
    run.start()
    replaced, state.own_loop = state.own_loop, Loop(state)
    run()
    assert replaced.counts == [] and state.own_loop.counts == [1]


def test_other_threads_see_batches_only_while_a_call_runs():
    state = State()
    run = runner(state)
    assert run.batches_if_idle() is None
    seen = []
    call = state.own_loop._call
    run._call = lambda *arguments: (seen.append(run.batches_if_idle()), call(*arguments))[1]
    run()
    assert seen == [3] and run.batches_if_idle() is None
