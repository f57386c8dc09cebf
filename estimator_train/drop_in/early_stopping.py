"""The old module `early_stopping`: the metrics of evaluations, read back from their events."""

from __future__ import annotations

import os

from estimator_train import events


def read_eval_metrics(eval_dir: str | os.PathLike[str]) -> dict[int, dict[str, float]]:
    """Dict of global steps, in their order, to dicts of metric names to floats; empty where there are no events.

    Args:
      eval_dir: directory of an evaluation's events, `estimator.eval_dir()` for one.
    """
    return events.read_eval_metrics(os.path.join(eval_dir, "*.tfevents.*"))
