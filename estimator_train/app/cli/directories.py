"""The directories of a run and of its data: where they are, what they hold, and whether a command can write there."""

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import click

from estimator_train._engine.host.model_dirs import absolute
from estimator_train._engine.host.paths import StrPath, as_path, is_remote
from estimator_train.app import datasets
from estimator_train.app.cli.messages import warn
from estimator_train.app.datasets.images import HELD_OUT, subdirectories
from estimator_train.app.runs import checkpoints, own_files
from estimator_train.app.runs.run_file import path_in

# Variables of training services: Vertex AI, "Environment variables for special Cloud Storage directories"; SageMaker
# Training Toolkit, ENVIRONMENT_VARIABLES.md.
MODEL_DIR_VARIABLES = ("AIP_MODEL_DIR", "SM_MODEL_DIR")  # the first one that is set is the default of --model-dir
_CHANNEL = "SM_CHANNEL_"


def model_dir_of(flags: SimpleNamespace) -> str:
    """Returns the directory that the flags of `train` name, or the default."""
    if flags.model_dir:
        return flags.model_dir
    if flags.input_fn:
        return os.path.join("runs", "own")
    return os.path.join("runs", dataset_of(flags))


def dataset_of(flags: SimpleNamespace) -> str:
    """Returns the dataset that the flags of `train` name: without --dataset, that in --data-dir, else the drawn one."""
    if flags.dataset or not flags.data_dir:
        return flags.dataset or datasets.NAMES[0]
    try:
        return datasets.named_by(flags.data_dir)
    except (ValueError, OSError) as error:
        raise click.ClickException(
            f"--data-dir: {error}; give a folder of class folders, or say with --dataset what it holds"
        ) from error


def data_dir_of_environment() -> tuple[str | None, str | None]:
    """Returns the default of --data-dir and the variables that it comes from, or (None, None).

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


def check_directory(directory: str, flag: str) -> None:
    """Checks that `directory` can be written to or created; a remote one is only checked when it is written."""
    if is_remote(directory):
        if as_path(directory).is_file():
            raise click.ClickException(f"{flag} {directory} is a file; give a folder")
        return
    path = Path(directory)
    nearest = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if not os.path.isdir(nearest):
        named, kind = f"{flag} {path}", "a link to nowhere"
        if nearest != path:
            named += f": {nearest}"
        if os.path.exists(nearest):
            kind = "a file"
        raise click.ClickException(f"{named} is {kind}; give a folder")
    if not is_writable(nearest):
        raise click.ClickException(f"{flag} {path}: no permission to write in {nearest.absolute()}")


def check_not_a_class(directory: str, flag: str, dataset: str | None, data_dir: str | None) -> None:
    """Checks that a folder for plots is not among those of which --dataset images would take it for another class."""
    if dataset != "images" or data_dir is None or is_remote(directory) or is_remote(data_dir):
        return
    folder, place = Path(data_dir).resolve(), Path(directory).resolve()
    roots = [folder]
    if subdirectories(folder / "train"):
        roots = [folder / side for side in ("train", *HELD_OUT)]
    for root in filter(place.is_relative_to, roots):
        if not any(part.startswith((".", "__")) for part in place.relative_to(root).parts):  # which are not looked into
            raise click.ClickException(
                f"{flag} {directory} is among the class folders of {data_dir}, where its plots would be images of "
                "another class; give a folder elsewhere"
            )


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
    check_directory(model_dir, "--model-dir")
    names = checkpoints.listed(model_dir)
    has_steps = names and checkpoints.step_of(names[-1]) != 0
    if is_new and (has_steps or as_path(model_dir, "evaluations.jsonl").exists()):
        where = "whose checkpoints are gone"
        if has_steps:
            where = f"trained to {names[-1]}"
        raise click.ClickException(f"{model_dir} holds a run, {where}; add --resume, or give another --model-dir")


def check_model_dir(model_dir: str) -> None:
    """Checks that `--model-dir` is not a glob pattern to TensorFlow, and that a run can keep its files there."""
    directory = as_path(model_dir)
    try:
        absolute(model_dir)
        directory.exists()  # raises if TensorFlow cannot access a remote one
        obstacle = own_files.obstacle_in(directory)
    except (ValueError, OSError) as error:  # such as no permission to look into the directory
        raise click.ClickException(f"--model-dir {model_dir}: {error}") from error
    if obstacle:
        raise click.ClickException(obstacle)
