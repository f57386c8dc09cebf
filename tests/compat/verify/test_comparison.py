"""Numbers and text of two sides are compared by name."""

import math

import numpy as np
import pytest

from estimator_train.compat.verify.comparison import compare


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        (2.0, 2.5, 0.25),  # relative
        (0.5, 0.25, 0.25),  # absolute
        (7, 7.0, 0.0),
        (math.nan, math.nan, 0.0),
        (math.inf, math.inf, 0.0),
        (1.0, math.nan, math.inf),
        (math.inf, 1.0, math.inf),
        ("yes", "yes", 0.0),
        ("yes", "no", math.inf),
        ("1", 1, math.inf),
        (np.array([b"a", b"b"], object), np.array([b"a", b"c"], object), math.inf),
        (np.zeros([2, 0]), np.zeros([2, 0]), 0.0),
        (True, False, 1.0),
    ],
)
def test_a_difference_is_relative_to_old_values_above_1(old, new, difference):
    assert compare({"x": old}, {"x": new}).largest == difference


def test_the_two_numbers_that_differ_most_stand_for_an_array():
    (compared,) = compare({"x": np.array([[1, 2], [3, 4.0]])}, {"x": np.array([[1, 2.5], [3, 40]])}).compared
    assert compared == ("x", 4, 4.0, 40.0, 9.0)


def test_arrays_of_other_shapes_differ_and_are_named_by_their_shapes():
    (compared,) = compare({"x": np.ones([2, 3])}, {"x": 1.0}).compared
    assert compared[2:] == ("2x3", "a scalar", math.inf)


def test_what_only_one_side_has_is_an_infinite_difference():
    comparison = compare({"a": 1, "b": 2, "c": 3}, {"b": 2, "d": 4})
    assert (comparison.only_old, comparison.only_new) == (["a", "c"], ["d"])
    assert comparison.largest == math.inf and comparison.values == 4
