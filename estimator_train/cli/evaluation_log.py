"""The evaluations of a run, kept in its folder as JSON lines."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

import numpy as np

from estimator_train.cli.settings import one_line_errors


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
    path = Path(model_dir, "evaluations.jsonl")
    with one_line_errors(), path.open("ab+", buffering=0) as file:  # one write, so that processes do not mix lines
        file.write(_end_of_torn_line(file) + json.dumps(entry).encode() + b"\n")
        os.fsync(file.fileno())
    return entry


def _end_of_torn_line(file):
    """A newline, if a killed process has left the last line unfinished."""
    if file.seek(0, os.SEEK_END) == 0:
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read(1) == b"\n" else b"\n"


def _finite(value):
    """A number or a list of numbers; JSON has no NaN."""
    return np.where(np.isfinite(value), value, None).tolist()
