"""Reads and writes run.json, and finds the checkpoints of a run, without TensorFlow."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.model_dirs import checkpoints_among
from estimator_train._engine.host.paths import RemotePath, as_path
from estimator_train.app.runs.parsed_json import parsed


def path_in(model_dir: str | os.PathLike[str]) -> Path | RemotePath:
    """Returns the path of run.json in a directory."""
    return as_path(model_dir, "run.json")


def save(model_dir: str | os.PathLike[str], settings: Mapping[str, Any], **about: Any) -> None:
    """Writes run.json in `model_dir` atomically: the settings and other facts about the run."""
    path = path_in(model_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(about | {"settings": settings}, indent=2) + "\n")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the content of run.json at `path`, whose settings and training are dicts; all else may be anything.

    Raises:
      ValueError: it cannot be read, or is something else.
    """
    path = as_path(path)
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is not a file")
        about = json.loads(path.read_text())
        if not isinstance(about, dict) or not isinstance(about.get("settings"), dict):
            raise ValueError("it holds no run's settings")
        if not isinstance(about.setdefault("training", {}), dict):
            raise ValueError(f"its training is {json.dumps(about['training'])}")
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}; it must be the run.json of a run") from error
    return about


def newest_checkpoint(model_dir: str | os.PathLike[str]) -> str | None:
    """Returns the name of the newest checkpoint in `model_dir`, or None; TensorFlow checks later that it is intact."""
    directory = as_path(model_dir)
    state = directory / "checkpoint"
    text = state.read_text(errors="replace") if state.is_file() else ""
    named = re.search(r'^model_checkpoint_path: "(.+)"', text, re.MULTILINE)
    if named:
        return Path(named.group(1)).name
    names = checkpoints_in(model_dir)
    return names[-1] if names else None


def newest_step(model_dir: str | os.PathLike[str]) -> int:
    """Returns the step of the newest checkpoint in `model_dir`, 0 if there is none."""
    name = newest_checkpoint(model_dir)
    return int(name.rpartition("-")[2]) if name and name[-1].isdigit() else 0


def checkpoints_in(model_dir: str | os.PathLike[str]) -> list[str]:
    """Returns the names of the checkpoints in `model_dir`, the oldest first; none if there is no such directory."""
    directory = as_path(model_dir)
    return checkpoints_among(path.name for path in directory.iterdir()) if directory.is_dir() else []


def best_checkpoint(model_dir: str | os.PathLike[str]) -> str | None:
    """Returns the path prefix of the checkpoint that --keep-best keeps in `model_dir`, or None."""
    directory = as_path(model_dir, "export", "best_checkpoint")
    name = newest_checkpoint(directory)
    return name and os.path.join(directory, name)


def metrics_of_best(checkpoint: str) -> dict[str, Any]:
    """Returns the metrics that `BestCheckpointExporter` has saved beside its checkpoint; empty if they are damaged."""
    path = as_path(f"{checkpoint}.eval_result.json")
    metrics = parsed(path.read_bytes()) if path.is_file() else None
    return metrics if isinstance(metrics, dict) else {}
