"""Differences that two runs of the old side have, too, are told from others."""

import math

import pytest

from estimator_train.compat.verify.comparison import compare
from estimator_train.compat.verify.noise import Noise
from estimator_train.compat.verify.results import Name

LOSS, STEP, LINE = Name("event", "m", "loss", 5), Name("checkpoint", "m", "global_step", 5), Name("printed", "1", "a b")


def explains(old, again, new):
    return Noise(compare(old, again), False).explains(compare(old, new), 1e-5)


@pytest.mark.parametrize(
    ("again", "new", "is_chance"),
    [
        (0.6, 0.7, True),
        (0.6, 0.5, True),
        (0.5, 0.6, False),
        (0.50002, 0.6, False),  # sums in another order are not so large
        (0.6, math.nan, False),
    ],
)
def test_chance_differs_in_two_runs_and_by_about_as_much(again, new, is_chance):
    old = {LOSS: 0.5, STEP: 5}
    assert explains(old, old | {LOSS: again}, old | {LOSS: new}) is is_chance


def test_a_difference_in_what_two_runs_share_is_none_of_chance():
    old = {LOSS: 0.5, STEP: 5}
    assert not explains(old, old | {LOSS: 0.6}, {LOSS: 0.6, STEP: 6})


def test_lines_of_one_side_are_chance_if_two_runs_have_some():
    old, new = {LINE: []}, {LINE._replace(name="a c"): []}
    assert explains(old, {LINE._replace(name="a d"): []}, new) and not explains(old, old, new)
