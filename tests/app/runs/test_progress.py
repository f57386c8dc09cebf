"""The epochs of a run are counted however often it was resumed in other steps, on other data, or from farther back."""

import json
from fractions import Fraction

import pytest

from estimator_train.app.runs.progress import Progress


@pytest.fixture
def stored(tmp_path):
    def stored(checkpoint, **about):
        (tmp_path / "run.json").write_text(json.dumps({"settings": {"batch_size": 8}, **about}))
        return Progress.of(tmp_path, checkpoint)

    return stored


def test_epochs_add_up_over_all_ways_in_which_a_run_was_resumed(stored):
    run = stored("model.ckpt-19", steps_per_epoch=[[0, 6], [12, 4], [14, 10]])
    assert run.epochs(19) == 3 and run.epochs(13) == Fraction(9, 4)
    assert run.first_step(10) == -11  # 3 epochs of 10 steps end at step 19
    assert run.first_step(3) == 10 and run.first_step(3) + 5 * 3 == 25
    assert run.first_step(3, since=12) == 16
    assert run.going_on(10) == run
    assert run.going_on(3).steps_per_epoch == ((0, 6), (12, 4), (14, 10), (19, 3))


def test_steps_after_a_checkpoint_that_is_set_back_to_do_not_count(stored):
    run = stored("model.ckpt-12", steps_per_epoch=[[0, 6], [12, 4], [14, 10]], phase_ends=[6, 13])
    assert run.ended_phases == (6,)
    assert run.first_step(6) == 0 and run.first_step(4) == 4
    assert run.going_on(6).steps_per_epoch == ((0, 6),)
    assert run.going_on(4).steps_per_epoch == ((0, 6), (12, 4))


def test_an_unfinished_step_of_an_epoch_is_trained_again_once(stored):
    pairs = [[0, 3]]
    for step, steps_per_epoch in ((4, 2), (5, 7), (9, 5), (10, 3)):
        run = stored(f"model.ckpt-{step}", steps_per_epoch=pairs)
        exact = step - run.epochs(step) * steps_per_epoch
        assert exact <= run.first_step(steps_per_epoch) < exact + 1
        pairs = [list(pair) for pair in run.going_on(steps_per_epoch).steps_per_epoch]


@pytest.mark.parametrize(
    ("about", "first_step"),
    [
        ({}, 0),
        ({"batches_per_step": 2, "data": {"train": 48}}, 4),  # 2 epochs of 3 steps, now of 1 step
        ({"batches_per_step": 2, "data": {"train": 48}, "first_step": 3}, 5),
        ({"batches_per_step": 2}, 0),
        ({"batches_per_step": 2, "data": {"train": 0}}, 0),
        ({"batches_per_step": 2, "data": {"train": 48}, "first_step": 10**99}, 0),
        ({"steps_per_epoch": [[0, 0]]}, 0),
        ({"steps_per_epoch": [[4, 1], [0, 2]]}, 0),
        ({"steps_per_epoch": [[0, "2"]]}, 0),
        ({"steps_per_epoch": 3}, 0),
        ({"phase_ends": "2"}, 0),
    ],
)
def test_runs_of_earlier_versions_continue_and_odd_values_do_not_count(about, first_step, stored):
    assert stored("model.ckpt-6", **about).first_step(1) == first_step


def test_a_run_without_a_checkpoint_begins(stored):
    for checkpoint in (None, "model.ckpt-0"):
        run = stored(checkpoint, steps_per_epoch=[[0, 6], [12, 4]])
        assert (run.step, run.first_step(5), run.going_on(5).steps_per_epoch) == (0, 0, ((0, 5),))
