"""The evaluations of a run, kept in its directory as JSON lines."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from estimator_train._engine.host.files import no_link, write_whole
from estimator_train._engine.host.paths import RemotePath, as_path
from estimator_train.app.metrics import tasks


def append(
    model_dir: str | os.PathLike[str],
    checkpoint: str,
    metrics: Mapping[str, Any],
    result: tasks.Result | None = None,
    *,
    name: str | None = None,
    images: str | None = None,
) -> dict[str, Any]:
    """Appends a line to evaluations.jsonl in `model_dir` and returns the dict that it holds.

    Its keys are checkpoint (the name without the directory), step, time (ISO 8601, in UTC), metrics, and, if there is a
    result, classification, multilabel or regression; name and images, if given. Non-finite numbers become null.

    Args:
      checkpoint: path prefix.
      metrics: dict returned by `Estimator.evaluate`.
      result: a `metrics.tasks.Result`, or None.
      name: None for a point of the training's curves, "final" for its result, "afterwards" for an evaluation of a
        finished run; event files have the same names.
      images: "validation", or where the images are, if they are not the run's own evaluation images.
    """
    entry = {
        "checkpoint": Path(checkpoint).name,
        "step": int(metrics["global_step"]),
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "metrics": {name: _finite(value) for name, value in metrics.items() if name != "global_step"},
    }
    entry |= {key: value for key, value in {"name": name, "images": images}.items() if value}
    if result is not None:
        entry[result.task] = result.to_json()
    line = json.dumps(entry).encode() + b"\n"
    path = as_path(model_dir, "evaluations.jsonl")
    if isinstance(path, RemotePath):  # object stores cannot append, but write whole objects
        write_whole(path, (path.read_bytes() if path.exists() else b"") + line)
    else:
        _append(path, line)
    return entry


def _append(path, line):
    with open(
        path, "ab+", buffering=0, opener=no_link
    ) as file:  # unbuffered: a single write keeps the lines of several processes apart
        file.write(_end_of_torn_line(file) + line)
        os.fsync(file.fileno())


def _end_of_torn_line(file):
    """Returns a newline if a killed process left the last line unfinished, else nothing."""
    if file.seek(0, os.SEEK_END) == 0:
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read(1) == b"\n" else b"\n"


def _finite(value):
    """Returns a number or a list of numbers with NaN and infinities replaced by None, since JSON has neither."""
    return np.where(np.isfinite(value), value, None).tolist()
