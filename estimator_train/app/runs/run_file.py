"""Reads and writes run.json, without TensorFlow; nothing else does."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import RemotePath, StrPath, as_path
from estimator_train.app.errors import SettingError
from estimator_train.app.runs import programs
from estimator_train.app.runs.fields import given_of
from estimator_train.app.runs.spec import STORED, RunSpec, Settings, Training, check_class_names, stored


def path_in(model_dir: StrPath) -> Path | RemotePath:
    """Returns the path of run.json in a directory."""
    return as_path(model_dir, "run.json")


def save(model_dir: StrPath, settings: Mapping[str, Any], **about: Any) -> None:
    """Writes run.json in `model_dir` atomically: the settings and other facts about the run."""
    path = path_in(model_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(about | {"settings": settings}, indent=2) + "\n")


def read(path: StrPath) -> dict[str, Any]:
    """Returns the content of run.json at `path`; its settings and its training are checked, as `spec.stored` does.

    Raises SettingError if it cannot be read, or holds what this version does not know.
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
        raise SettingError("{0} cannot be read: {1}; it must be the run.json of a run", path, error) from error
    settings, training = about["settings"], about["training"]
    if settings.get("recipe"):
        raise SettingError(
            "{0} is of a recipe, which have left the command: {1}", path, programs.instead(settings["recipe"])
        )
    try:
        about["settings"], about["training"] = stored(settings, Settings), stored(training, Training)
    except ValueError as error:
        raise SettingError("{0} cannot be read: {1}", path, error) from error
    return about


def given_in(path: StrPath) -> dict[str, Any]:
    """Returns the settings, by their names, that repeat the run of a run.json: those that are not defaults."""
    about = read(path)
    given = given_of(about["settings"] | about["training"], *STORED)
    if about.get("chooses_cache"):  # as the repeated run will
        given.pop("cache", None)
    return given


def spec_in(model_dir: StrPath) -> RunSpec | None:
    """Returns the settings of the run in a directory, or None if there is no run; raises as `read` does."""
    path = path_in(model_dir)
    if not path.exists():
        return None
    return spec_of(read(path), path)


def spec_of(about: Mapping[str, Any], path: StrPath | RemotePath) -> RunSpec:
    """Returns the settings in the content of a run.json; raises SettingError, with its path, if some are missing."""
    try:
        settings = Settings(**about["settings"])  # raises TypeError for one that is missing
        check_class_names(settings.class_names)
    except (TypeError, ValueError) as error:
        raise SettingError("{0} cannot be read: {1}; delete it, or use another folder", path, error) from error
    return RunSpec(settings, Training(**about["training"]))
