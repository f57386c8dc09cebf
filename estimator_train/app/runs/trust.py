"""Knows which functions, folders and downloads in a run.json the user has chosen, rather than somebody else.

The names that a user gives on the command line are recorded in the user's state directory, outside of every run, so
runs of their own on this machine go on without a question, even if they have been moved.
"""

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs

from estimator_train._engine.host.files import printable, write_whole
from estimator_train._engine.host.paths import absolute
from estimator_train.app import datasets

_FUNCTIONS = ("input_fn", "eval_input_fn", "callbacks")
_LIBRARIES = ("cats_vs_dogs", "tfds:", "hf:")  # these may write to a data_dir that has the data, too


def remember(settings: Mapping[str, Any]) -> None:
    """Records that the user has chosen the functions, folders and downloads in `settings`."""
    with contextlib.suppress(OSError):  # without a home that can be written, later commands ask
        for name in _named(settings) + _fetched(settings):
            record = _record(name)
            record.parent.mkdir(parents=True, exist_ok=True)
            write_whole(record, printable(name) + "\n")


def unknown(settings: Mapping[str, Any]) -> list[str]:
    """Returns what `settings` name and is not recorded, unless it is data that is here; raises as `datasets.named`."""
    functions = [name for name in _named(settings) if not _record(name).exists()]
    fetched = [name for name in _fetched(settings) if not _record(name).exists()]
    if fetched and not _is_here(settings):
        return functions + fetched
    return functions


def _named(settings):
    """Returns the functions that a run with these settings runs, and the folder of its cache.

    Paths are absolute: a relative one would name another file in another folder.
    """
    named = [settings.get(name) for name in _FUNCTIONS]
    if ":" in (settings.get("model") or ""):
        named.append(settings["model"])
    if settings.get("cache") not in (None, "memory", "features"):
        named.append(settings["cache"])
    return list(dict.fromkeys(absolute(name) for name in named if name))


def _fetched(settings):
    """Returns the folder that a run with these settings may write its data to, or the dataset that it may download."""
    dataset, data_dir = settings.get("dataset"), settings.get("data_dir")
    if dataset in (None, datasets.NAMES[0]) or not hasattr(datasets.named(dataset), "is_here"):
        return []
    if data_dir:
        return [absolute(data_dir)]
    return [f"the download of {dataset}"]


def _is_here(settings):
    """Returns whether the data of a run is here, so that nothing is written to its folder."""
    dataset, data_dir = settings.get("dataset"), settings.get("data_dir")
    if dataset is None or (data_dir and dataset.startswith(_LIBRARIES)):
        return False
    return datasets.is_here(dataset, data_dir)


def _record(name):
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()
    return Path(platformdirs.user_state_dir("estimator_train"), "trusted", digest)
