"""Initial values are compared by value where a side gives them again, else by their distribution."""

import math

import numpy as np
import pytest

from estimator_train.compat.verify import initial_values
from estimator_train.compat.verify.initial_values import compare_initial_values


def compared(old, new, seeds=(0, 1, 2, 3)):
    """Compares what two functions of a generator give in two runs each; returns whether that is equal, and the rest."""
    values = [{"w": draw(np.random.default_rng(seed))} for draw, seed in zip([old, old, new, new], seeds, strict=True)]
    runs = [values[0], values[2], lambda: (values[1], values[3])]
    comparison, left_out = compare_initial_values(*runs, tolerance=1e-5)
    (each,) = comparison.compared
    return each, [line.split(",")[0] for line in left_out]


def normal(size, scale=1.0):
    return lambda random: random.normal(scale=scale, size=size).astype(np.float32)


def constant(value):
    return lambda random: np.full(1, value, np.float32)


def test_values_that_a_side_gives_again_are_compared():
    each, left_out = compared(constant(0.0), constant(1.0))
    assert (each.old, each.new, each.difference) == (0.0, 1.0, 1.0) and not left_out


def test_equal_values_need_no_second_run():
    comparison, left_out = compare_initial_values({"w": [1.0]}, {"w": [1.0]}, pytest.fail, tolerance=1e-5)
    assert comparison.largest == 0 and not left_out


def test_other_names_and_shapes_differ():
    again = {"a": np.zeros(2)}, {"a": np.zeros(3)}
    comparison, _ = compare_initial_values(
        {"a": np.zeros(2), "b": 1.0}, {"a": np.zeros(3), "c": 1.0}, lambda: again, tolerance=1e-5
    )
    assert (comparison.compared[0].old, comparison.compared[0].new) == ("2", "3")
    assert (comparison.only_old, comparison.only_new) == (["b"], ["c"])


@pytest.mark.parametrize(("old", "new"), [(normal(1), constant(0.0)), (constant(0.0), normal(1))])
def test_what_only_one_side_draws_anew_differs_even_if_it_is_one_number(old, new):
    each, _ = compared(old, new)
    assert each.difference == math.inf and {each.old, each.new} == {"drawn anew", "the same again"}


OTHERS = {
    "twice the deviation": (normal(300), normal(300, 2.0)),
    "a tenth more": (normal(20_000), normal(20_000, 1.1)),
    "another mean": (normal(300), lambda random: 1 + random.normal(size=300)),
    "uniform": (normal(5_000), lambda random: random.uniform(-(3**0.5), 3**0.5, 5_000)),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_distribution_is_found(kind):
    for seed in range(5):
        each, left_out = compared(*OTHERS[kind], seeds=range(4 * seed, 4 * seed + 4))
        assert each.difference == math.inf and "deviation" in each.old and not left_out


@pytest.mark.parametrize("size", [3, 300, 5_000])
def test_the_same_distribution_is_never_another(size):
    for seed in range(20):
        each, (line,) = compared(normal(size), normal(size), seeds=range(4 * seed, 4 * seed + 4))
        assert each.difference == 0
    assert line == (
        "random initial values" if size >= initial_values._ENOUGH else "random initial values of fewer than 300 numbers"
    )


def test_numbers_that_depend_on_each_other_are_not_compared():
    """The chance of a false alarm holds for independent numbers alone."""

    def one_in_all_places(random):
        return np.full(1_000, random.normal())

    def noise_around_one(random):
        return random.normal() + 0.1 * random.normal(size=1_000)

    for draw in (one_in_all_places, noise_around_one):
        for seed in range(20):
            assert compared(draw, draw, seeds=range(4 * seed, 4 * seed + 4))[0].difference == 0


def test_a_later_training_may_depend_on_the_first():
    values = [{"w": normal(300, scale)(np.random.default_rng(seed))} for seed, scale in enumerate([1, 1, 2, 2])]
    comparison, left_out = compare_initial_values(
        values[0], values[2], lambda: (values[1], values[3]), 1e-5, is_of_first=lambda name: False
    )
    assert comparison.largest == 0
    assert left_out == {"random initial values of trainings after the first, which may depend on it": 1}
