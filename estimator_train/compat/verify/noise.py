"""Tells differences of two sides from those that two runs of the old side have, too."""

import math
from typing import NamedTuple

from estimator_train.compat.verify.comparison import Comparison

_FACTOR = 10  # between two differences that are both chance


class Noise(NamedTuple):
    """The comparison of two runs of the old side, and whether their initial values differ."""

    comparison: Comparison
    in_initial_values: bool

    @property
    def differences(self) -> dict[object, float]:
        """The difference of the two runs, by name."""
        return {each.name: each.difference for each in self.comparison.compared}

    def explains(self, found: Comparison, tolerance: float) -> bool:
        """Whether chance may be the reason of every difference that was found.

        It is not for one that the two runs do not have, nor for one ten times as large as all that they have.
        """
        of_two_runs = self.differences
        limit = _FACTOR * max(filter(math.isfinite, of_two_runs.values()), default=0.0)
        for each in found.compared:
            by_chance = of_two_runs.get(each.name, 0.0)
            if each.difference > tolerance and (by_chance <= tolerance or each.difference > max(limit, by_chance)):
                return False
        kinds = {name.kind for name in (*self.comparison.only_old, *self.comparison.only_new)}
        return all(name.kind in kinds for name in (*found.only_old, *found.only_new))
