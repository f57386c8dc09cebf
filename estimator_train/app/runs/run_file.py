"""Reads and writes run.json, without TensorFlow."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import RemotePath, StrPath, as_path


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
