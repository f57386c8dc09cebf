"""The settings of a run: read from flags, saved in its directory and checked, all without TensorFlow."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import os
import types
import typing
from pathlib import Path

import click

from estimator_train._engine.distribution.cluster_task import this_task
from estimator_train._engine.host.files import CONTROL, printable, write_whole
from estimator_train._engine.host.model_dirs import absolute
from estimator_train._engine.host.paths import as_path, is_remote
from estimator_train.app import datasets
from estimator_train.app.cli import trust
from estimator_train.app.models import Optimization, parse_phases


@dataclasses.dataclass(frozen=True)
class Settings:
    """The data and the model of a run, as given or by the dataset's defaults.

    `input_fn` and `eval_input_fn`, and `model` if it is not a name, refer to the user's code as FILE:FUNCTION. With an
    input_fn, `batch_size` is None.
    """

    dataset: str | None
    data_dir: str | None
    input_fn: str | None
    eval_input_fn: str | None
    model: str
    weights: str | None
    image_size: tuple[int, int] | None
    class_names: tuple[str, ...]
    batch_size: int | None
    seed: int | None
    limit: int | None = None
    split: str | None = None
    fast: bool = False
    optimizer: str | None = None
    ema: float | None = None
    label_smoothing: float | None = None
    dropout: float | None = None
    freeze: str | None = None
    phases: str | None = None
    task: str = "classification"  # or another of models.TASKS
    label_moments: tuple[float, float] | None = None  # mean and standard deviation of a regression's training labels

    def save(self, model_dir, **about):
        """Saves the settings in `model_dir` atomically, together with other facts `about` the run."""
        save_run(model_dir, dataclasses.asdict(self), **about)

    def in_phases(self):
        """Returns a list of (settings, `Phase`) for each of the --phases; empty without them."""
        phases = parse_phases(self.phases) if self.phases else ()
        return [(dataclasses.replace(self, freeze=phase.freeze, phases=None), phase) for phase in phases]

    @classmethod
    def load(cls, model_dir):
        """Returns the settings of the run in `model_dir`, or None if there is no run."""
        path = run_file(model_dir)
        if not path.exists():
            return None
        values = _read(path)["settings"]
        if isinstance(values.get("recipe"), str):
            raise click.ClickException(
                f"{model_dir} holds a run of the recipe {values['recipe']}, which does its own evaluation: "
                f"estimator_train --model-dir {model_dir} --resume"
            )
        try:
            lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            settings = cls(**values | lists)
            _check_types(settings)
            _check_names(settings.class_names)
            settings.in_phases()
        except (TypeError, ValueError) as error:
            raise click.ClickException(f"{path} cannot be read: {error}; delete it, or use another folder") from error
        return settings

    @classmethod
    def of_run(cls, model_dir, trusts=None):
        """Returns the settings of the run in `model_dir`, which must exist.

        `trusts` is the value of --trust-run, or None if the command neither runs nor writes what run.json names.
        """
        check_model_dir(model_dir)
        if not as_path(model_dir).is_dir():
            raise click.ClickException(f"{model_dir}: there is no such folder; give the folder of a run")
        settings = cls.load(model_dir)
        if settings is None:
            raise click.ClickException(f"{model_dir} holds no run: it has no run.json")
        if trusts is not None:
            trust.check(run_file(model_dir), dataclasses.asdict(settings), trusts)
        return settings

    def check_same(self, earlier, model_dir):
        """Raises ClickException if a run would be continued with different settings, except `_MAY_CHANGE`."""
        for field in dataclasses.fields(self):
            ours, theirs = getattr(self, field.name), getattr(earlier, field.name)
            if ours != theirs and field.name not in _MAY_CHANGE:
                raise click.ClickException(
                    f"the run in {model_dir} has {field.name} {_text(theirs)}, not {_text(ours)}; continue with the "
                    "same, or give another --model-dir"
                )


# The files may have moved, and a resumed run may train different layers than before.
_MAY_CHANGE = ("data_dir", "freeze", "phases")


@dataclasses.dataclass(frozen=True)
class Training:
    """How to train: length, devices, evaluations and learning rates, from the flags or their defaults.

    A resumed run may change them.
    """

    epochs: int | None
    max_steps: int | None
    gpus: int | None
    replicas: int | None
    steps_per_loop: int
    save_checkpoints_steps: int | None
    evaluate_every: int | None
    early_stopping: int | None
    keep_best: bool
    all_reduce: str | None = None
    accumulate_steps: int = 1
    mixed_precision: str | None = None
    recompute: bool = False
    jit_compile: bool = False
    async_checkpoints: bool = False
    cache: str | None = None
    learning_rate: float | None = None
    schedule: str | None = None
    warmup_steps: int | None = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    scale_learning_rate: bool = False
    class_weights: str | None = None
    augment: str | None = None
    callbacks: str | None = None
    log: tuple[str, ...] | None = None
    monitor: str | None = None  # METRIC:min or METRIC:max; None: the loss

    @property
    def num_replicas(self):
        """Returns the number of replicas, over all workers."""
        return this_task().num_training_tasks * (self.gpus or self.replicas or 1)


def optimization_of(settings, training=None):
    """Returns the `Optimization` of a run; without `training`, only the parts that evaluation needs, too."""
    given = dataclasses.asdict(settings) | (dataclasses.asdict(training) if training else {})
    names = given.keys() & {field.name for field in dataclasses.fields(Optimization)}
    factor = training.num_replicas if training and training.scale_learning_rate else 1
    return Optimization(**{name: given[name] for name in names}, learning_rate_factor=factor)


def _check_types(settings):
    """Raises TypeError if a setting, which may have been read from a file, does not have its annotated type."""
    for name, kind in typing.get_type_hints(Settings).items():
        value = getattr(settings, name)
        if not _is_of(value, kind):
            raise TypeError(f"{name} is {json.dumps(value)}")


def _is_of(value, kind):
    """Checks a value against a type used in `Settings`: a class, a tuple of one class, or either of them or None."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return any(_is_of(value, each) for each in typing.get_args(kind))
    if typing.get_origin(kind) is not tuple:
        return type(value) is kind
    each, *rest = typing.get_args(kind)
    is_any_length = rest == [Ellipsis]
    return type(value) is tuple and all(isinstance(item, each) for item in value) and (is_any_length or len(value) == 2)


def _check_names(names):
    """Raises ValueError for a name that would control the terminal."""
    for name in names:
        if CONTROL.search(name):
            raise ValueError(f"the class {printable(name)} has control characters; rename it")


def run_file(model_dir):
    """Returns the path of run.json, which describes a run."""
    return as_path(model_dir, "run.json")


def save_run(model_dir, settings, **about):
    """Writes run.json in `model_dir` atomically: the settings, a dict, and other facts about the run."""
    path = run_file(model_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(about | {"settings": settings}, indent=2) + "\n")


_FILES = (
    "run.json",
    "timing.json",
    "evaluations.jsonl",
    "predictions.csv",
    "metrics.csv",
    "loggers.json",
    "checkpoint",
    "graph.pbtxt",
    "report/report.html",
)
_FOLDERS = ("eval", "report", "export")

# Recipe settings that may change when a run is resumed.
_FREE = ("recipe", "data_dir", "epochs", "max_steps", "split_over")


def check_same_settings(settings, path):
    """Raises ClickException if a recipe's run, whose run.json is at `path`, would continue with other settings."""
    earlier = _read(path)["settings"]
    for name, ours in settings.items():
        theirs = tuple(value) if isinstance(value := earlier.get(name), list) else value
        if ours != theirs and name not in _FREE:
            raise click.ClickException(
                f"the run in {path.parent} has {name} {_text(theirs)}, not {_text(ours)}; continue with the same, or "
                "give another --model-dir"
            )


def flags_of(path):
    """Returns the flags of `train`, by their Python names, that reproduce the run described by run.json at `path`."""
    values = _read(path)
    flags = values["settings"] | values.get("training", {})
    for name in ("class_names", "label_moments"):  # come from the dataset
        flags.pop(name, None)
    if flags.get("task") == "classification":  # the default
        del flags["task"]
    if isinstance(flags.get("image_size"), list):
        flags["image_size"] = "x".join(map(str, flags["image_size"]))
    return {name: value for name, value in flags.items() if value is not None}


def _read(path):
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
    return values


def open_data(dataset, data_dir, *, limit, split, seed, task="classification", draw=True):
    """Opens the dataset of a run, given its settings.

    Without `draw`, an embedded dataset that does not exist yet lists its future files without drawing them.
    """
    options = {"split": split} if split else {}
    if task != "classification":
        options["task"] = task
    if not draw and dataset == datasets.NAMES[0]:
        options["draw"] = False
    with one_line_errors():
        data = datasets.open_dataset(dataset, data_dir, limit=limit, limit_seed=seed or 0, **options)
        _check_names(data.class_names)
        return data


@contextlib.contextmanager
def one_line_errors():
    """Turns a ValueError or OSError, caused by the user's input, into one line and exit code 2."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


def check_function(reference, flag):
    """Checks that FILE:FUNCTION names a Python file and a name at its top level, without running it."""
    path, _, name = reference.rpartition(":")
    if not path or not name.isidentifier():
        raise click.ClickException(f"{flag} {reference}: give FILE:FUNCTION, such as my_data.py:train_input_fn")
    try:
        tree = ast.parse(Path(path).read_text(), path)
    except OSError as error:
        raise click.ClickException(f"{flag} {reference}: cannot read {path}: {error.strerror}") from error
    except SyntaxError as error:
        raise click.ClickException(f"{flag} {reference}: {path} line {error.lineno}: {error.msg}") from error
    names = {name for node in tree.body for name in _names_made_by(node)}
    if name not in names and "*" not in names:  # from module import *
        raise click.ClickException(
            f"{flag} {reference}: {path} has no {name}; it has {', '.join(sorted(names)) or 'none'}"
        )


def _names_made_by(node):
    """Returns the names that a top-level statement may define, including those in its branches."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    names = {
        alias.asname or alias.name
        for part in ast.walk(node)
        for alias in getattr(part, "names", [])
        if isinstance(alias, ast.alias)
    }
    names |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return names | {part.name for part in ast.walk(node) if isinstance(part, ast.FunctionDef)}


def check_folder(folder, flag):
    """Checks that `folder` can be written to or created; a remote one is only checked when it is written."""
    if is_remote(folder):
        if as_path(folder).is_file():
            raise click.ClickException(f"{flag} {folder} is a file; give a folder")
        return
    path = Path(folder)
    if os.path.lexists(path) and not path.is_dir():
        kind = "a file" if path.exists() else "a link to nowhere"
        raise click.ClickException(f"{flag} {path} is {kind}; give a folder")
    existing = next(parent for parent in [path.absolute(), *path.absolute().parents] if parent.exists())
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        raise click.ClickException(f"{flag} {path}: no permission to write in {existing}")


def check_model_dir(model_dir):
    """Checks that `--model-dir` is not a glob pattern to TensorFlow, and that a run can keep its files there."""
    folder = as_path(model_dir)
    try:
        absolute(model_dir)
        folder.exists()  # raises if TensorFlow cannot access a remote one
    except (ValueError, OSError) as error:
        raise click.ClickException(f"--model-dir {model_dir}: {error}") from error
    for path in [*(folder / name for name in _FILES), *folder.glob("model.ckpt-*.*")]:
        if path.exists() and not path.is_file():
            raise click.ClickException(f"{path} is not a file, but a run keeps a file of that name; move it elsewhere")
    if not is_remote(model_dir):
        _check_links(folder)
    for path in (folder / name for name in _FOLDERS):
        if path.exists() and not path.is_dir():
            raise click.ClickException(
                f"{path} is not a folder, but a run keeps a folder of that name; move it elsewhere"
            )


def _check_links(folder):
    """Checks that nothing a run writes in `folder`, which may be somebody else's, is a link to a place outside."""
    inside = os.path.realpath(folder) + os.sep
    named = [folder / name for name in ("evaluations.jsonl", "training.lock", "learning_rate.png", "images", *_FOLDERS)]
    for path in [*named, *folder.glob("export/*"), *folder.glob("images/*"), *folder.glob("*_temp*")]:
        if path.is_symlink() and not os.path.realpath(path).startswith(inside):
            raise click.ClickException(f"{path} is a link that leads out of the run; remove it")


def _text(value):
    if value is None:
        return "its default"
    if not isinstance(value, tuple):
        return value
    return ("x" if isinstance(value[0], int) else ", ").join(map(str, value)) if value else "none"
