"""How far a run has been trained, of which a resumed one has to know when its epochs end."""

from __future__ import annotations

import os
from typing import NamedTuple

from estimator_train.app.runs import run_file

_MOST_STEPS = 2**63 - 1  # the global step is an int64


class Progress(NamedTuple):
    """How far a run has been trained.

    Attributes:
      first_step: global step from which its epochs count; see `CallbacksHook`.
    """

    last_step: int
    batches_per_step: int
    examples: int
    first_step: int


def progress_of(model_dir: str | os.PathLike[str]) -> Progress | None:
    """Returns the progress of the run in `model_dir`, or None if there is no run, or run.json does not have it."""
    path = run_file.path_in(model_dir)
    if not path.exists():
        return None
    stored = run_file.read(path)
    data = stored.get("data")
    examples = data.get("train") if isinstance(data, dict) else None
    numbers = [stored.get("last_step"), stored.get("batches_per_step"), examples, stored.get("first_step", 0)]
    integers = [number for number in numbers if type(number) is int]
    if len(integers) < len(numbers):
        return None
    progress = Progress(*integers)
    if min(progress[:3]) < 1 or progress.last_step * progress.batches_per_step > _MOST_STEPS:
        return None
    return progress if abs(progress.first_step) <= _MOST_STEPS else None
