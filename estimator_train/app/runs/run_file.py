"""Reads and writes run.json, and finds the checkpoints of a run, without TensorFlow."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.model_dirs import checkpoints_among
from estimator_train._engine.host.paths import RemotePath, StrPath, as_path
from estimator_train.app.runs.parsed_json import parsed


def path_in(model_dir: StrPath) -> Path | RemotePath:
    """Returns the path of run.json in a directory."""
    return as_path(model_dir, "run.json")


def save(model_dir: StrPath, settings: Mapping[str, Any], **about: Any) -> None:
    """Writes run.json in `model_dir` atomically: the settings and other facts about the run."""
    path = path_in(model_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(about | {"settings": settings}, indent=2) + "\n")


def read(path: StrPath) -> dict[str, Any]:
    """Returns the content of run.json at `path`: its settings and training are dicts; raises ValueError otherwise."""
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


def newest_checkpoint(model_dir: StrPath) -> str | None:
    """Returns the name of the newest checkpoint in `model_dir`, or None; TensorFlow checks later that it is intact."""
    directory = as_path(model_dir)
    state = directory / "checkpoint"
    if state.is_file():
        text = state.read_text(errors="replace")
        if named := re.search(r'^model_checkpoint_path: "(.+)"', text, re.MULTILINE):
            return Path(named.group(1)).name
    return next(reversed(checkpoints_in(model_dir)), None)


def step_of(checkpoint: str) -> int | None:
    """Returns the global step in the name or the path prefix of a checkpoint, or None if it has another name."""
    _, _, step = checkpoint.rpartition("-")
    return int(step) if step.isdecimal() else None


def newest_step(model_dir: StrPath) -> int:
    """Returns the step of the newest checkpoint in `model_dir`, 0 if there is none."""
    return step_of(newest_checkpoint(model_dir) or "") or 0


def checkpoints_in(model_dir: StrPath) -> list[str]:
    """Returns the names of the checkpoints in `model_dir`, the oldest first; none if there is no such directory."""
    directory = as_path(model_dir)
    if not directory.is_dir():
        return []
    return checkpoints_among(path.name for path in directory.iterdir())


def best_checkpoint(model_dir: StrPath) -> str | None:
    """Returns the path prefix of the checkpoint that --keep-best keeps in `model_dir`, or None."""
    directory = as_path(model_dir, "export", "best_checkpoint")
    name = newest_checkpoint(directory)
    return name and os.path.join(directory, name)


def metrics_of_best(checkpoint: str) -> dict[str, Any]:
    """Returns the metrics that `BestCheckpointExporter` has saved beside its checkpoint; empty if they are damaged."""
    path = as_path(f"{checkpoint}.eval_result.json")
    if not path.is_file():
        return {}
    metrics = parsed(path.read_bytes())
    if not isinstance(metrics, dict):
        return {}
    return metrics
