"""The IDs of a run in experiment trackers, kept in its directory so that a resumed training continues the same runs."""

from __future__ import annotations

import json

from estimator_train.host.files import write_whole
from estimator_train.host.paths import as_path


def run_id(folder, tracker):
    """The ID of the run in `folder` at that tracker, or None where it has none yet."""
    return _read(folder).get(tracker)


def keep_run_id(folder, tracker, value):
    """Keeps the ID of the run in `folder`, which is made if it is missing."""
    as_path(folder).mkdir(parents=True, exist_ok=True)
    write_whole(_file(folder), json.dumps(_read(folder) | {tracker: value}, indent=2) + "\n")


def _file(folder):
    return as_path(folder, "loggers.json")


def _read(folder):
    path = _file(folder)
    try:
        ids = json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}; delete it, and the trackers start a new run") from error
    if not isinstance(ids, dict) or not all(isinstance(value, str) for value in ids.values()):
        raise ValueError(f"{path} holds no IDs of runs; delete it, and the trackers start a new run")
    return ids
