"""The settings in run.json: read, checked, and turned into the flags that repeat the run."""

import contextlib
import dataclasses
import json
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import click

from estimator_train._engine.host.files import printable, quoted
from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app import datasets
from estimator_train.app.cli import parameters as kinds
from estimator_train.app.cli.directories import check_model_dir
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.programs import instead
from estimator_train.app.cli.settings import STORED, Settings, Training, check_class_names
from estimator_train.app.cli.table import given_of, settings_in, text_of
from estimator_train.app.datasets.images import ImageFiles
from estimator_train.app.runs import StoredRun, run_file, trust

# Types whose values are right or wrong on every machine. A function or a file may be elsewhere, and not be needed.
_SAME_EVERYWHERE = (click.Choice, click.IntRange, click.FloatRange, kinds.ImageSize, kinds.Augmentations, kinds.Phases)


def load_settings(model_dir: Any) -> Settings | None:
    """Returns the settings of the run in `model_dir`, or None if there is no run."""
    path = run_file.path_in(model_dir)
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
    return Training(**read(run_file.path_in(model_dir))["training"])


def ask(path: Any, settings: Mapping[str, Any], trusts: bool) -> None:
    """Asks, if there is a terminal, whether to use what `settings` name and the user has not used before.

    `path` is the run.json that has the settings, and `trusts` the value of --trust-run.
    """
    with one_line_errors():
        unknown = trust.unknown(settings)
    if not unknown:
        return
    names = ", ".join(map(printable, unknown))
    if not trusts and sys.stdin.isatty() and sys.stderr.isatty():
        question = f"{printable(str(path))} names {names}, which you have not used here before. Run or write to them?"
        trusts = click.confirm(question, err=True)
    if not trusts:
        raise click.ClickException(
            f"{path} names {names}, which you have not used here before; read the code, then add --trust-run"
        )
    trust.remember(settings)


def open_run(model_dir: str, trusts: bool | None = None) -> tuple[StoredRun, Settings]:
    """Returns the run in `model_dir`, which must exist, and its settings.

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
        ask(run_file.path_in(model_dir), dataclasses.asdict(settings) | {"dataset": None}, trusts)
    with one_line_errors():
        return StoredRun(model_dir), settings


def data_of_run(run: StoredRun, settings: Settings, trusts: bool) -> Any:
    """Opens the dataset of the run, which must have the classes of the run's model; returns None for an input_fn."""
    ask(run_file.path_in(run.model_dir), {"dataset": settings.dataset, "data_dir": settings.data_dir}, trusts)
    with saying_data_may_have_moved():
        data = settings.open_data()
    if data and data.class_names != settings.class_names:
        raise click.ClickException(
            f"the run in {run.model_dir} knows the classes {quoted(settings.class_names)}, but "
            f"{settings.data_dir or settings.dataset} has {quoted(data.class_names)}; evaluate on the same classes"
        )
    return data


@contextlib.contextmanager
def saying_data_may_have_moved() -> Iterator[None]:
    """Adds to the error that the data of an earlier run is not there how to say where it is now."""
    try:
        yield
    except click.ClickException as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        where = "if the run's data has moved, say where with --data-dir, of evaluate or of train --resume"
        raise click.ClickException(f"{error.message}; {where}") from error.__cause__


def other_data(settings: Settings, dataset: str | None, data_dir: str | None) -> tuple[Settings, Any]:
    """Returns the settings and the dataset to evaluate a run with on other data of the same classes."""
    if not settings.dataset:
        raise click.ClickException("--dataset and --data-dir need a run on a dataset, and this one has an input_fn")
    if dataset is None:
        dataset = settings.dataset
        if dataset.startswith(("tfds:", "hf:")):
            dataset = "images"  # they would download their own images into the folder
    about = {"task": settings.task, "image_size": settings.image_size}
    with one_line_errors():
        data = datasets.open_evaluation(dataset, data_dir, settings.class_names, **about)
    changes = {"dataset": dataset, "data_dir": data_dir} | dict.fromkeys(("split", "validation", "limit"))
    if not isinstance(data.eval, ImageFiles):
        if settings.resize not in (None, "squash") or settings.ignore_orientation:
            message = f"the run's --resize or --ignore-orientation is for image files, and {data.name} has none"
            raise click.ClickException(message)
        changes |= {"resize": None, "fast": False}
    return dataclasses.replace(settings, **changes), data


def flags_of(path: StrPath) -> dict[str, Any]:
    """Returns the flags of `train`, by their Python names, that reproduce the run described by run.json at `path`."""
    run = read(path)
    flags = given_of(run["settings"] | run["training"], *STORED)
    if run.get("chooses_cache"):  # the command chooses again
        flags.pop("cache", None)
    return flags


def check_same(settings: Mapping[str, Any], earlier: Mapping[str, Any], model_dir: Any) -> None:
    """Raises ClickException if the run in `model_dir` would be continued with other settings than the `earlier` ones.

    Some may change: files may have moved, a resumed run may train other layers, and `Training` is never fixed. Nor are
    what the data alone decides, the mean and deviation of its numbers, of a run that has no step yet.
    """
    free = settings_in(Training).keys() | {name for name, each in settings_in(Settings).items() if each.may_change}
    free.add("label_moments")
    for name, ours in settings.items():
        theirs = earlier.get(name)
        if ours != theirs and name not in free:
            said = quoted if name == "class_names" else text_of
            raise click.ClickException(
                f"the run in {model_dir} has {name} {said(theirs)}, not {said(ours)}; continue with the same, or "
                "give another --model-dir"
            )


def read(path: StrPath) -> dict[str, Any]:
    """Returns the content of run.json at `path`; its settings, and how the run is trained, are checked as flags are."""
    with one_line_errors():
        about = run_file.read(path)
    if about["settings"].get("recipe"):
        raise click.ClickException(
            f"{path} is of a recipe, which have left the command: {instead(about['settings']['recipe'])}"
        )
    try:
        about["settings"] = _fields(about["settings"], Settings)
        about["training"] = _fields(about["training"], Training)
    except ValueError as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from error
    return about


def _fields(values, table):
    """Returns the stored `values` of the `table`; raises ValueError for a name or a value that it does not have.

    Unknown names are left out if they have no value: a newer version of the command stores all of its flags.
    """
    hints = typing.get_type_hints(table)
    fields = {}
    for name, value in values.items():
        if name in hints:
            fields[name] = tuple(value) if isinstance(value, list) else value  # JSON has no tuples
            _check(name, fields[name], hints[name], settings_in(table).get(name))
        elif value is not None and value is not False:
            raise ValueError(
                f"{name} is {json.dumps(value)}, and this version does not know it; update estimator_train"
            )
    return fields


def _check(name, value, hint, setting):
    remedy = "delete the file, or use another folder"
    if not _is_of(value, hint):
        raise ValueError(f"{name} is {json.dumps(value)}; {remedy}")
    if value is None or setting is None or not isinstance(setting.kind, _SAME_EVERYWHERE):
        return
    try:
        setting.kind.convert(value, None, None)
    except click.BadParameter as error:
        raise ValueError(f"{name}: {error.message.rstrip('.')}; {remedy}") from error


def _is_of(value, kind):
    """Checks a value against a type used in the tables: a class, a tuple of one class, or either of them or None."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return any(_is_of(value, each) for each in typing.get_args(kind))
    if kind is float:
        return type(value) in (float, int)
    if typing.get_origin(kind) is not tuple:
        return type(value) is kind
    each, *rest = typing.get_args(kind)
    is_any_length = rest == [Ellipsis]
    return type(value) is tuple and all(_is_of(item, each) for item in value) and (is_any_length or len(value) == 2)
