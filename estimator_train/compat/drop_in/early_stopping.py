"""The old module `early_stopping`: reads the metrics of evaluations from their event files."""

from __future__ import annotations

import os

from estimator_train._engine import events


def read_eval_metrics(eval_dir: str | os.PathLike[str]) -> dict[int, dict[str, float]]:
    """Returns a dict of global steps, in ascending order, to dicts of metric names to floats; empty without events.

    Args:
      eval_dir: directory of an evaluation's event files, such as `estimator.eval_dir()`.
    """
    return events.read_eval_metrics(os.path.join(eval_dir, "*.tfevents.*"))
