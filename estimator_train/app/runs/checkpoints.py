"""Finds the checkpoints of a run, without TensorFlow: the newest that is intact, the best, and all others."""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from estimator_train._engine.host.checkpoint_files import all_damaged, damage_of_files
from estimator_train._engine.host.model_dirs import checkpoints_among
from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.runs.parsed_json import parsed


def newest(model_dir: StrPath) -> str | None:
    """Returns the name of the newest checkpoint in `model_dir` whose files are whole, or None if there are none.

    `stored_run.newest_intact` verifies each value, too, which needs TensorFlow. Raises ValueError if all are damaged,
    but for one of step 0, with which nothing is lost.
    """
    names = listed(model_dir)
    for name in reversed(names):
        if _is_whole(model_dir, name):
            return name
    if not names or step_of(names[-1]) == 0:
        return None
    others = [os.path.join(model_dir, name) for name in names_in(model_dir) if _is_whole(model_dir, name)]
    raise ValueError(all_damaged(model_dir, os.path.join(model_dir, names[-1]), others))


def listed(model_dir: StrPath) -> list[str]:
    """Returns the names of the checkpoints up to the one that the file `checkpoint` names, damaged ones, too.

    Without a legible one, they are all that are there, as for TensorFlow.
    """
    state = as_path(model_dir, "checkpoint")
    if not state.is_file():
        return names_in(model_dir)
    lines = re.findall(r'^(\w+): "(.+)"', state.read_text(errors="replace"), re.MULTILINE)
    named = {"model_checkpoint_path": [], "all_model_checkpoint_paths": []}
    for key, path in lines:
        named.setdefault(key, []).append(Path(path).name)
    if not named["model_checkpoint_path"]:
        return names_in(model_dir)
    last, others = named["model_checkpoint_path"][-1], named["all_model_checkpoint_paths"]
    if last not in others:
        return [last]
    return others[: others.index(last) + 1]


def names_in(model_dir: StrPath) -> list[str]:
    """Returns the names of the checkpoints in `model_dir`, the oldest first; none if there is no such directory."""
    directory = as_path(model_dir)
    if not directory.is_dir():
        return []
    return checkpoints_among(path.name for path in directory.iterdir())


def step_of(checkpoint: str) -> int | None:
    """Returns the global step in the name or the path prefix of a checkpoint, or None if it has another name."""
    _, _, step = checkpoint.rpartition("-")
    return int(step) if step.isdecimal() else None


def fingerprint(prefix: StrPath) -> str | None:
    """Returns what tells a checkpoint from another one of its name; copies have the same. None if it has no index."""
    index = as_path(f"{prefix}.index")
    if not index.is_file():
        return None
    return hashlib.sha256(index.read_bytes()).hexdigest()[:16]  # an index has the checksums of all values


def best(model_dir: StrPath) -> str | None:
    """Returns the path prefix of the checkpoint that --keep-best keeps in `model_dir`, or None."""
    directory = as_path(model_dir, "export", "best_checkpoint")
    names = listed(directory)
    if not names:
        return None
    return os.path.join(directory, names[-1])


def metrics_of_best(checkpoint: str) -> dict[str, Any]:
    """Returns the metrics that `BestCheckpointExporter` has saved beside its checkpoint; empty if they are damaged."""
    path = as_path(f"{checkpoint}.eval_result.json")
    if not path.is_file():
        return {}
    metrics = parsed(path.read_bytes())
    if not isinstance(metrics, dict):
        return {}
    return metrics


def _is_whole(model_dir, name):
    return damage_of_files(os.path.join(model_dir, name)) is None
