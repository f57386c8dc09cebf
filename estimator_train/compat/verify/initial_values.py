"""Compares the initial values of two sides: numbers that a side draws anew in each run, by their distribution."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from estimator_train.compat.verify.comparison import Compared, Comparison, compare

Values: TypeAlias = Mapping[Any, Any]

# The chance that two samples of one distribution are said to differ.
_FALSE_ALARM = 1e-9
# As many numbers show a normal distribution of twice the deviation in 99.5 % of all draws.
_ENOUGH = 300
_MOST = 1_000_000  # values to sort
_FACTOR = 2  # between the distance of two sides and that of two runs of one side
_BY_DISTRIBUTION = "random initial values, beyond their distributions"
_LATER = "random initial values of trainings after the first, which may depend on it"
_DEPENDENT = "random initial values that depend on each other"
_TOO_FEW = f"random initial values of fewer than {_ENOUGH} numbers, whose distributions may differ unseen"


def compare_initial_values(
    old: Values,
    new: Values,
    again: Callable[[], tuple[Values, Values]],
    tolerance: float,
    is_of_first: Callable[[Any], bool] = lambda name: True,
) -> tuple[Comparison, Counter[str]]:
    """Compares initial values by name, and returns how many of which kind cannot be compared, too.

    If values differ, `again` runs both sides once more. What a side draws anew in each run has no value to compare: its
    distribution is compared, if both sides draw it, and `is_of_first` says that its name is of the first training: only
    those numbers are known to come from no other training, and a test of distributions needs numbers that are
    independent.
    """
    comparison, left_out = compare(old, new), Counter[str]()
    different = {each.name for each in comparison.compared if each.difference > tolerance}
    if not different:
        return comparison, left_out
    old_again, new_again = again()
    of_old, of_new = _drawn(old, old_again, tolerance), _drawn(new, new_again, tolerance)

    def judged(each: Compared) -> Compared:
        name = each.name
        if name not in different or name not in of_old | of_new or np.shape(old[name]) != np.shape(new[name]):
            return each
        if not (name in of_old and name in of_new):
            in_old, in_new = ("drawn anew" if name in drawn else "the same again" for drawn in (of_old, of_new))
            return Compared(name, each.values, in_old, in_new, math.inf)
        if not is_of_first(name):
            left_out[_LATER] += 1
            return Compared(name, each.values, "", "", 0.0)
        return _by_distribution(name, [old[name], old_again[name]], [new[name], new_again[name]], left_out)

    return comparison._replace(compared=list(map(judged, comparison.compared))), left_out


def _drawn(first: Values, second: Values, tolerance: float) -> set[Hashable]:
    """Returns the names of the values that two runs of a side do not share."""
    return {each.name for each in compare(first, second).compared if each.difference > tolerance}


def _by_distribution(name: Hashable, old: list[np.ndarray], new: list[np.ndarray], left_out: Counter[str]) -> Compared:
    values = np.size(old[0])
    all_old, all_new = (np.concatenate(list(map(np.ravel, side))) for side in (old, new))
    of_one_side = [_distance(*map(np.ravel, side)) for side in (old, new)]
    # Numbers that depend on each other, such as a single one in all places, differ between two runs of one side, too.
    if any(each.is_significant for each in of_one_side):
        left_out[_DEPENDENT] += 1
        return Compared(name, values, "", "", 0.0)
    of_both = _distance(all_old, all_new)
    if of_both.is_significant and of_both.largest > _FACTOR * max(each.largest for each in of_one_side):
        return Compared(name, values, _described(all_old), _described(all_new), math.inf)
    left_out[_BY_DISTRIBUTION if values >= _ENOUGH else _TOO_FEW] += 1
    return Compared(name, values, "", "", 0.0)


class _Distance(NamedTuple):
    """The largest difference of the shares of two samples that lie below a number, by Kolmogorov and Smirnov."""

    largest: float
    is_significant: bool


def _distance(first: np.ndarray, second: np.ndarray) -> _Distance:
    """Returns the larger of the distances of two samples, and of their sizes without the signs."""
    first, second = (np.unique(sample[:: 1 + sample.size // _MOST].astype(np.float64)) for sample in (first, second))
    limit = math.sqrt(math.log(2 / _FALSE_ALARM) / 2 * (1 / first.size + 1 / second.size))
    largest = max(_largest_difference(first, second), _largest_difference(np.abs(first), np.abs(second)))
    return _Distance(largest, largest > limit)


def _largest_difference(first: np.ndarray, second: np.ndarray) -> float:
    both = np.concatenate([first, second])
    below_first, below_second = (
        np.searchsorted(np.sort(sample), both, side="right") / sample.size for sample in (first, second)
    )
    return float(np.max(np.abs(below_first - below_second)))


def _described(values: np.ndarray) -> str:
    return f"deviation {values.std():.2g}, from {values.min():.2g} to {values.max():.2g}"
