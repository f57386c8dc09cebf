"""A run on disk as it is opened to be evaluated: what it names is trusted, and its data are there and its own."""

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click

from estimator_train._engine.host.files import printable, quoted
from estimator_train.app import datasets
from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.datasets.images import ImageFiles
from estimator_train.app.errors import SettingError, one_line_errors
from estimator_train.app.running import changed_images
from estimator_train.app.running.directories import check_directory
from estimator_train.app.running.messages import warn
from estimator_train.app.runs import StoredRun, run_file, trust
from estimator_train.app.runs.spec import Settings


def ask(path: Any, settings: Mapping[str, Any], trusts: bool) -> None:
    """Asks, if there is a terminal, whether to use what `settings` name and the user has not used before.

    `path` is the run.json that has the settings, and `trusts` whether the user has said to trust it.
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
        raise SettingError(
            "{0} names {1}, which you have not used here before; read the code, then add {trust_run}", path, names
        )
    trust.remember(settings)


class Examined(NamedTuple):
    """The settings and the data for an evaluation."""

    settings: Settings
    data: Dataset | None  # None for an input_fn
    images: str | None  # where the images are, if not those of the run


def named_by(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the settings of a run name, without what those `given` by this call replace; see `ask`."""
    named = {name: value for name, value in stored.items() if name not in given}
    if "data_dir" in given:
        return named | {"dataset": None}
    if "data_dir" in named:
        named["dataset"] = stored.get("dataset")  # it says what is written to the folder
    return named


def trusted_settings(run: StoredRun, trusts: bool | None) -> Settings:
    """Returns the settings of a run whose functions are to be run; see `ask`.

    `trusts` is None if nothing that run.json names is run or written to. `data_of_run` asks about the data.
    """
    settings = run.spec.settings
    if trusts is not None:
        ask(run_file.path_in(run.model_dir), dataclasses.asdict(settings) | {"dataset": None}, trusts)
    return settings


def data_of_run(run: StoredRun, settings: Settings, trusts: bool) -> Dataset | None:
    """Opens the dataset of the run, which must have the classes of the run's model; returns None for an input_fn."""
    ask(run_file.path_in(run.model_dir), {"dataset": settings.dataset, "data_dir": settings.data_dir}, trusts)
    with saying_data_may_have_moved():
        data = settings.open_data()
    if data and data.class_names != settings.class_names:
        raise SettingError(
            "the run in {0} knows the classes {1}, but {2} has {3}; evaluate on the same classes",
            run.model_dir,
            quoted(settings.class_names),
            settings.data_dir or settings.dataset,
            quoted(data.class_names),
        )
    return data


@contextlib.contextmanager
def saying_data_may_have_moved() -> Iterator[None]:
    """Adds to the error that the data of an earlier run is not there how to say where it is now."""
    try:
        yield
    except SettingError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise SettingError(
            "{0}; if the run's data has moved, say where with {data_dir}, of evaluate or of train {resume}", error
        ) from error.__cause__


def other_data(settings: Settings, dataset: str | None, data_dir: str | None) -> tuple[Settings, Dataset]:
    """Returns the settings and the dataset to evaluate a run with on other data of the same classes."""
    if not settings.dataset:
        raise SettingError("{dataset} and {data_dir} need a run on a dataset, and this one has an input_fn")
    if dataset is None:
        dataset = settings.dataset
        if dataset.startswith(("tfds:", "hf:")):
            dataset = "images"  # they would download their own images into the folder
    about: Any = {"task": settings.task, "image_size": settings.image_size}
    with one_line_errors():
        data = datasets.open_evaluation(dataset, data_dir, settings.class_names, **about)
    changes = {"dataset": dataset, "data_dir": data_dir} | dict.fromkeys(("split", "validation", "limit"))
    if not isinstance(data.eval, ImageFiles):
        if settings.resize not in (None, "squash") or settings.ignore_orientation:
            raise SettingError(
                "the run's {resize} or {ignore_orientation} is for image files, and {0} has none", data.name
            )
        changes |= {"resize": None, "fast": False}
    return dataclasses.replace(settings, **changes), data


def data_to_evaluate(
    run: StoredRun, settings: Settings, dataset: str | None, data_dir: str | None, trusts: bool, ranks: bool
) -> Examined:
    """Returns what to evaluate a run on.

    `dataset` or `data_dir` name other data. If checkpoints are ranked, it is on validation images, if there are any.
    """
    images = data_dir or dataset
    if not images:
        data = data_of_run(run, settings, trusts)
        changed_images.say_changes(run, settings, data)
    else:
        own, (settings, data) = settings, other_data(settings, dataset, data_dir)
        changed_images.say_trained_on(own, data)
    if ranks and data and data.validation_examples:
        # The evaluation images would no longer judge what they have chosen.
        click.echo(f"ranking on the {data.validation_examples} validation images", err=True)
        data, images = data.to_choose_on(), images or "validation"
    return Examined(settings, data, images)


def check_evaluable(
    run: StoredRun, settings: Settings, place: str | None, choose_thresholds: bool, names_examples: bool
) -> None:
    """Rejects a run that lacks what an evaluation needs; says if it cannot keep evaluations."""
    if place is None:
        if choose_thresholds:
            check_directory(run.model_dir, "model_dir")
        warn(f"no permission to write in {run.model_dir}: the evaluation is not kept")
    if choose_thresholds and settings.task != "multilabel":
        raise SettingError(
            "{choose_thresholds} needs a run with {task=multilabel}, and the task of {0} is {1}",
            run.model_dir,
            settings.task,
        )
    if names_examples and not (settings.class_names or settings.task == "regression"):
        raise SettingError("{predictions} needs classes, and the run in {0} has none", run.model_dir)


def check_predictable(run: StoredRun, settings: Settings, top: int | None) -> None:
    """Rejects a run that cannot predict for image files, or not its `top` classes."""
    if not settings.dataset:
        raise SettingError("{model_dir} {0} was trained with an input_fn, not on a dataset of images", run.model_dir)
    if top is not None and top < 1:
        raise SettingError("{top}: {0} is not in the range x>=1", top)
    if top and not settings.class_names:
        raise SettingError("{top} {0} is for classes or labels, and {1} predicts a number", top, run.model_dir)
