"""Stores the IDs of a run in experiment trackers in its directory, so a resumed training continues the same runs."""

import json
import os

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import as_path

_FILE = "loggers.json"


def run_id(folder: str | os.PathLike[str], tracker: str) -> str | None:
    """Returns the ID that the run in `folder` has in `tracker`, or None if it has none yet."""
    return _read(folder).get(tracker)


def keep_run_id(folder: str | os.PathLike[str], tracker: str, value: str) -> None:
    """Stores the ID of the run in `folder`, which is created if missing."""
    as_path(folder).mkdir(parents=True, exist_ok=True)
    write_whole(as_path(folder, _FILE), json.dumps(_read(folder) | {tracker: value}, indent=2) + "\n")


def _read(folder: str | os.PathLike[str]) -> dict[str, str]:
    path = as_path(folder, _FILE)
    try:
        ids = json.loads(path.read_text()) if path.exists() else {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}; delete it to start a new run in the trackers") from error
    if not isinstance(ids, dict) or not all(isinstance(value, str) for value in ids.values()):
        raise ValueError(f"{path} has no run IDs; delete it to start a new run in the trackers")
    return ids
