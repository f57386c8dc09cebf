"""Timers of checkpoints and evaluations do not read the clock that people set."""

import time

import pytest
import tensorflow as tf

from estimator_train._engine.session.timer import GridTimer, StepTimer


def test_a_clock_that_is_set_back_changes_nothing(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    timer = StepTimer(every_secs=60)
    assert timer.should_trigger_for_step(1)
    assert timer.update_last_triggered_step(1) == (None, None)
    monkeypatch.setattr(time, "time", lambda: -3600.0)
    now += 59
    assert not timer.should_trigger_for_step(2)
    now += 1
    assert not timer.should_trigger_for_step(1) and timer.should_trigger_for_step(2)
    assert timer.update_last_triggered_step(3) == (60, 2)
    timer.reset()
    assert timer.last_triggered_step() is None


@pytest.mark.parametrize("every", [{"every_secs": 1e-9}, {"every_secs": 1e9}, {"every_steps": 3}])
def test_it_triggers_as_tensorflows_timer(every):
    timers = StepTimer(**every), tf.compat.v1.train.SecondOrStepTimer(**every)
    for step in (0, 1, 1, 2, 3, 4, 7, 7, 20):
        ours, theirs = (timer.should_trigger_for_step(step) for timer in timers)
        assert ours == theirs
        if ours:
            steps = {timer.update_last_triggered_step(step)[1] for timer in timers}
            assert len(steps) == 1
        assert timers[0].last_triggered_step() == timers[1].last_triggered_step()


@pytest.mark.parametrize("arguments", [{}, {"every_secs": 1, "every_steps": 1}])
def test_one_interval_is_needed(arguments):
    with pytest.raises(ValueError, match="every_secs and every_steps|every_secs or every_steps"):
        StepTimer(**arguments)


def test_a_grid_has_the_multiples_whatever_the_step_of_a_resume():
    timer, triggered = GridTimer(16), []
    assert timer.next_look(19) == 20
    timer.update_last_triggered_step(19)
    assert (timer.next_look(19), timer.next_look(40)) == (32, 41)
    for step in [*range(20, 70), 82, 83, 96]:  # a loop may pass a multiple
        if timer.should_trigger_for_step(step):
            timer.update_last_triggered_step(step)
            triggered.append(step)
    assert triggered == [32, 48, 64, 82, 96]


def test_a_grid_of_two_numbers_has_the_multiples_of_both_and_no_others():
    timer, triggered = GridTimer(5, 7), []
    timer.update_last_triggered_step(0)
    while timer.last_triggered_step() < 22:
        step = timer.next_look(timer.last_triggered_step())
        assert timer.should_trigger_for_step(step) and not timer.should_trigger_for_step(step - 1)
        timer.update_last_triggered_step(step)
        triggered.append(step)
    assert triggered == [5, 7, 10, 14, 15, 20, 21, 25]
