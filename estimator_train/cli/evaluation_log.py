"""The evaluations of a run, kept in its folder as JSON lines."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np


def append(model_dir, checkpoint, metrics, classification=None):
    """Adds a line to evaluations.jsonl in `model_dir`, and returns the dict that it holds.

    Its keys are checkpoint, the name without the folder; step; time, in UTC, as ISO 8601 has it; metrics; and
    classification, where there is one. Numbers that are not finite are null.

    Args:
      checkpoint: path prefix.
      metrics: what `Estimator.evaluate` returned.
      classification: a `Classification`.
    """
    entry = {
        "checkpoint": Path(checkpoint).name,
        "step": int(metrics["global_step"]),
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "metrics": {name: _finite(value) for name, value in metrics.items() if name != "global_step"},
    }
    if classification is not None:
        entry["classification"] = classification.to_json()
    with Path(model_dir, "evaluations.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
    return entry


def _finite(value):
    """A number or a list of numbers; JSON has no NaN."""
    return np.where(np.isfinite(value), value, None).tolist()
