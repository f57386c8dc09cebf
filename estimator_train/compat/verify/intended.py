"""Knows why a result that only one side has may be no difference: the package saves more, or under other names."""

from collections.abc import Callable, Mapping
from typing import Any

from estimator_train.compat.verify.results import Name


def reasons(old: Mapping[Name, Any], new: Mapping[Name, Any]) -> Callable[[Name], str | None]:
    """Returns a function that gives the reason for a name that only one side has, or None if it is a difference.

    `old` and `new` are in the order of their steps.
    """
    files = {name._replace(name="") for name in old} & {name._replace(name="") for name in new}
    old_ends, new_ends = ({name.place: name.step for name in side} for side in (old, new))
    keras_dirs = {name.directory for name in new if name.name.startswith("save_counter")}

    def reason(name: Name) -> str | None:
        if name._replace(name="") not in files:
            # A training that resumes saves at multiples of save_checkpoints_steps; TensorFlow counts from its start.
            end = old_ends.get(name.place)
            if end == new_ends.get(name.place) and name.step != end:
                return "results of steps at which only one side has saved"
        elif name.directory in keras_dirs:
            return "variables and scalars that trainings of Keras models name otherwise here"
        return None

    return reason
