"""The directories of a run and of its data: where they are, what they hold, and whether a command can write there."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from estimator_train._engine.host.model_dirs import absolute
from estimator_train._engine.host.paths import StrPath, as_path, is_remote
from estimator_train.app import datasets
from estimator_train.app.datasets.images import HELD_OUT, subdirectories
from estimator_train.app.errors import SettingError
from estimator_train.app.running.messages import warn
from estimator_train.app.runs import checkpoints, own_files
from estimator_train.app.runs.run_file import path_in

# Variables of training services: Vertex AI, "Environment variables for special Cloud Storage directories"; SageMaker
# Training Toolkit, ENVIRONMENT_VARIABLES.md.
MODEL_DIR_VARIABLES = ("AIP_MODEL_DIR", "SM_MODEL_DIR")  # the first one that is set is the default of --model-dir
_CHANNEL = "SM_CHANNEL_"


def model_dir_of(model_dir: str | None, settings: Mapping[str, Any]) -> str:
    """Returns the directory of a training with these settings: the one given, or the default."""
    if model_dir:
        return model_dir
    if settings.get("input_fn"):
        return os.path.join("runs", "own")
    return os.path.join("runs", dataset_of(settings.get("dataset"), settings.get("data_dir")))


def dataset_of(dataset: str | None, data_dir: str | None) -> str:
    """Returns the dataset of a training: the one named, or that in `data_dir`, or else the drawn one."""
    if dataset or not data_dir:
        return dataset or datasets.NAMES[0]
    try:
        return datasets.named_by(data_dir)
    except (ValueError, OSError) as error:
        raise SettingError(
            "{data_dir}: {0}; give a folder of class folders, or say with {dataset} what it holds", error
        ) from error


def data_dir_of_environment() -> tuple[str | None, str | None]:
    """Returns the default of data_dir and the variables that it comes from, or (None, None).

    A single channel is the data directory itself. Of several, such as train and test, it is the common parent, the
    layout that `datasets.images.open_directory` expects.
    """
    channels = sorted(name for name in os.environ if name.startswith(_CHANNEL) and os.environ[name])
    if not channels:
        return None, None
    return os.path.commonpath([os.environ[name] for name in channels]), ", ".join(channels)


def warn_of_lost_checkpoints(model_dir: str) -> None:
    """Says that a run without a checkpoint starts at step 0, because its checkpoints may have been lost."""
    if path_in(model_dir).exists() and not checkpoints.listed(model_dir):
        warn(f"{model_dir} holds a run but no checkpoint: it starts at step 0")


def check_directory(directory: str, name: str) -> None:
    """Checks that the directory of a setting can be written to or created, a remote one only when it is written."""
    given = f"{{{name}}} {{0}}"
    if is_remote(directory):
        if as_path(directory).is_file():
            raise SettingError(f"{given} is a file; give a folder", directory)
        return
    path = Path(directory)
    nearest = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if not os.path.isdir(nearest):
        kind = "a link to nowhere"
        if nearest != path:
            given += ": {2}"
        if os.path.exists(nearest):
            kind = "a file"
        raise SettingError(f"{given} is {{1}}; give a folder", path, kind, nearest)
    if not is_writable(nearest):
        raise SettingError(f"{given}: no permission to write in {{1}}", path, nearest.absolute())


def check_not_a_class(directory: str, name: str, dataset: str | None, data_dir: str | None) -> None:
    """Checks that a folder for plots is not among those of which --dataset images would take it for another class."""
    if dataset != "images" or data_dir is None or is_remote(directory) or is_remote(data_dir):
        return
    folder, place = Path(data_dir).resolve(), Path(directory).resolve()
    roots = [folder]
    if subdirectories(folder / "train"):
        roots = [folder / side for side in ("train", *HELD_OUT)]
    for root in filter(place.is_relative_to, roots):
        if not any(part.startswith((".", "__")) for part in place.relative_to(root).parts):  # which are not looked into
            raise SettingError(
                f"{{{name}}} {{0}} is among the class folders of {{1}}, where its plots would be images of another "
                "class; give a folder elsewhere",
                directory,
                data_dir,
            )


def place_of(model_dir: str) -> str | None:
    """Returns a run's directory if files can be kept there, else None; a remote one is taken to let them."""
    if is_remote(model_dir) or is_writable(model_dir):
        return model_dir
    return None


def is_writable(directory: StrPath) -> bool:
    """Returns whether files can be made in a local directory; permissions alone do not say so in /proc."""
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return False
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def check_place(model_dir: str, is_new: bool) -> None:
    """Checks that a training can write to `model_dir`, and, if it is new, that no run has been trained there.

    A run that ended before its first step, for example because of a damaged image, may start again.
    """
    check_model_dir(model_dir)
    check_directory(model_dir, "model_dir")
    names = checkpoints.listed(model_dir)
    has_steps = names and checkpoints.step_of(names[-1]) != 0
    if is_new and (has_steps or as_path(model_dir, "evaluations.jsonl").exists()):
        where = "whose checkpoints are gone"
        if has_steps:
            where = f"trained to {names[-1]}"
        raise SettingError("{0} holds a run, {1}; add {resume}, or give another {model_dir}", model_dir, where)


def check_model_dir(model_dir: str) -> None:
    """Checks that `model_dir` is not a glob pattern to TensorFlow, and that a run can keep its files there."""
    directory = as_path(model_dir)
    try:
        absolute(model_dir)
        directory.exists()  # raises if TensorFlow cannot access a remote one
        obstacle = own_files.obstacle_in(directory)
    except (ValueError, OSError) as error:  # such as no permission to look into the directory
        raise SettingError("{model_dir} {0}: {1}", model_dir, error) from error
    if obstacle:
        raise SettingError("{0}", obstacle)
