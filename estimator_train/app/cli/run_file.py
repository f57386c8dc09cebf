"""run.json, which describes a run: written, read, checked, and turned into the flags that repeat the run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import as_path
from estimator_train.app import datasets
from estimator_train.app.cli import trust
from estimator_train.app.cli.directories import check_model_dir, run_file
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.parameters import MOST_STEPS
from estimator_train.app.cli.programs import instead
from estimator_train.app.cli.settings import STORED, Settings, Training, check_class_names
from estimator_train.app.cli.stored_values import fields_of
from estimator_train.app.cli.table import settings_in, text_of


def save_run(model_dir: Any, settings: Mapping[str, Any], **about: Any) -> None:
    """Writes run.json in `model_dir` atomically: the settings and other facts about the run."""
    path = run_file(model_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(about | {"settings": settings}, indent=2) + "\n")


def load_settings(model_dir: Any) -> Settings | None:
    """Returns the settings of the run in `model_dir`, or None if there is no run."""
    path = run_file(model_dir)
    if not path.exists():
        return None
    try:
        settings = Settings(**read(path)["settings"])  # raises TypeError for a setting that is missing
        check_class_names(settings.class_names)
    except (TypeError, ValueError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}; delete it, or use another folder") from error
    return settings


def load_training(model_dir: Any) -> Training:
    """Returns how the run in `model_dir` is trained."""
    return Training(**read(run_file(model_dir))["training"])


class Progress(NamedTuple):
    """How far a run has been trained.

    Attributes:
      first_step: global step from which its epochs count; see `CallbacksHook`.
    """

    last_step: int
    batches_per_step: int
    examples: int
    first_step: int


def progress_of(model_dir: Any) -> Progress | None:
    """Returns the progress of the run in `model_dir`, or None if run.json does not have it."""
    stored = read(run_file(model_dir))
    data = stored.get("data")
    examples = data.get("train") if isinstance(data, dict) else None
    progress = Progress(stored.get("last_step"), stored.get("batches_per_step"), examples, stored.get("first_step", 0))
    if not all(type(number) is int for number in progress) or min(progress[:3]) < 1:
        return None
    is_plausible = progress.last_step * progress.batches_per_step <= MOST_STEPS >= abs(progress.first_step)
    return progress if is_plausible else None


def settings_of_run(model_dir: str, trusts: bool | None = None) -> Settings:
    """Returns the settings of the run in `model_dir`, which must exist.

    `trusts` is the value of --trust-run, or None if the command neither runs nor writes what run.json names.
    """
    check_model_dir(model_dir)
    if not as_path(model_dir).is_dir():
        raise click.ClickException(f"{model_dir}: there is no such folder; give the folder of a run")
    settings = load_settings(model_dir)
    if settings is None:
        raise click.ClickException(
            f"{model_dir} holds no run: it has no run.json; evaluate what a program has trained in that program"
        )
    if trusts is not None:  # `data_of_run` asks about the data
        trust.check(run_file(model_dir), dataclasses.asdict(settings) | {"dataset": None}, trusts)
    return settings


def data_of_run(settings: Settings, model_dir: str, trusts: bool) -> Any:
    """Opens the dataset of the run, which must have the classes of the run's model; returns None for an input_fn.

    `trusts` is the value of --trust-run.
    """
    trust.check(run_file(model_dir), {"dataset": settings.dataset, "data_dir": settings.data_dir}, trusts)
    data = settings.open_data()
    if data and data.class_names != settings.class_names:
        raise click.ClickException(
            f"the run in {model_dir} knows the classes {', '.join(settings.class_names)}, but "
            f"{settings.data_dir or settings.dataset} has {', '.join(data.class_names)}; evaluate on the same classes"
        )
    return data


def other_data(settings: Settings, dataset: str | None, data_dir: str | None) -> tuple[Settings, Any]:
    """Returns the settings and the dataset to evaluate a run with on other data of the same classes."""
    if not settings.dataset:
        raise click.ClickException("--dataset and --data-dir need a run on a dataset, and this one has an input_fn")
    if dataset is None:  # tfds:NAME and hf:NAME would download their own images into the folder
        dataset = "images" if settings.dataset.startswith(("tfds:", "hf:")) else settings.dataset
    settings = dataclasses.replace(
        settings, dataset=dataset, data_dir=data_dir, split=None, validation=None, limit=None
    )
    with one_line_errors():
        data = datasets.open_evaluation(
            settings.dataset, data_dir, settings.class_names, task=settings.task, image_size=settings.image_size
        )
    return settings, data


def flags_of(path: str | Path) -> dict[str, Any]:
    """Returns the flags of `train`, by their Python names, that reproduce the run described by run.json at `path`."""
    run = read(path)
    values = run["settings"] | run["training"]
    defaults = {field.name: field.default for table in STORED for field in dataclasses.fields(table)}
    flags = {name: values[name] for name in settings_in(*STORED) if name in values}
    return {name: value for name, value in flags.items() if value is not None and value != defaults[name]}


def check_same(settings: Mapping[str, Any], earlier: Mapping[str, Any], model_dir: Any) -> None:
    """Raises ClickException if the run in `model_dir` would be continued with other settings than the `earlier` ones.

    Some may change: files may have moved, a resumed run may train other layers, and `Training` is never fixed.
    """
    free = settings_in(Training).keys() | {name for name, each in settings_in(Settings).items() if each.may_change}
    for name, ours in settings.items():
        theirs = earlier.get(name)
        if ours != theirs and name not in free:
            raise click.ClickException(
                f"the run in {model_dir} has {name} {text_of(theirs)}, not {text_of(ours)}; continue with the same, or "
                "give another --model-dir"
            )


def read(path: str | Path) -> dict[str, Any]:
    """Returns the content of run.json at `path`, which has settings, and perhaps how the run is trained.

    Both are checked, as flags are; other facts may be anything.
    """
    try:
        path = as_path(path)
        if path.exists() and not path.is_file():
            raise ValueError("it is not a file")
        values = json.loads(path.read_text())
        if not isinstance(values, dict) or not isinstance(values.get("settings"), dict):
            raise ValueError("it holds no run's settings")
        if not isinstance(values.get("training", {}), dict):
            raise ValueError(f"its training is {json.dumps(values['training'])}")
    except (OSError, ValueError, RecursionError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}; it must be the run.json of a run") from error
    if values["settings"].get("recipe"):
        raise click.ClickException(
            f"{path} is of a recipe, which have left the command: {instead(values['settings']['recipe'])}"
        )
    try:
        values["settings"] = fields_of(values["settings"], Settings)
        values["training"] = fields_of(values.get("training", {}), Training)
    except ValueError as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from error
    return values
