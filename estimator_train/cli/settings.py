"""The settings of a run: read from flags, kept in its directory, and checked, all without TensorFlow."""

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

from estimator_train import datasets
from estimator_train.distribution.cluster_task import this_task
from estimator_train.host.files import write_whole
from estimator_train.host.model_dirs import absolute
from estimator_train.host.paths import as_path, is_remote
from estimator_train.models import Optimization, parse_phases


@dataclasses.dataclass(frozen=True)
class Settings:
    """The data and the model of a run, as given or as the dataset has them by default.

    `input_fn`, `eval_input_fn` and, in place of a name, `model` are FILE:FUNCTION of the user's own. An input_fn has a
    batch size of its own.
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
        """Saves the settings in `model_dir`, completely or not at all, with further facts `about` the run."""
        save_run(model_dir, dataclasses.asdict(self), **about)

    def in_phases(self):
        """Pairs of the settings in each phase and the `Phase`; none without --phases."""
        phases = parse_phases(self.phases) if self.phases else ()
        return [(dataclasses.replace(self, freeze=phase.freeze, phases=None), phase) for phase in phases]

    @classmethod
    def load(cls, model_dir):
        """The settings of the run in `model_dir`, or None where there is no run."""
        path = run_file(model_dir)
        if not path.exists():
            return None
        values = _read(path)["settings"]
        if isinstance(values.get("recipe"), str):
            raise click.ClickException(
                f"{model_dir} holds a run of the recipe {values['recipe']}, which evaluates it itself: "
                f"estimator_train --model-dir {model_dir} --resume"
            )
        try:
            lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            settings = cls(**values | lists)
            _check_types(settings)
            settings.in_phases()
        except (TypeError, ValueError) as error:
            raise click.ClickException(f"{path} cannot be read: {error}; delete it, or use another folder") from error
        return settings

    @classmethod
    def of_run(cls, model_dir):
        """The settings of the run that must be in `model_dir`."""
        check_model_dir(model_dir)
        if not as_path(model_dir).is_dir():
            raise click.ClickException(f"{model_dir}: there is no such folder; give that of a run")
        settings = cls.load(model_dir)
        if settings is None:
            raise click.ClickException(f"{model_dir} holds no run: it has no run.json")
        return settings

    def check_same(self, earlier, model_dir):
        """Refuses to continue a run with different settings, except `_MAY_CHANGE`."""
        for field in dataclasses.fields(self):
            ours, theirs = getattr(self, field.name), getattr(earlier, field.name)
            if ours != theirs and field.name not in _MAY_CHANGE:
                raise click.ClickException(
                    f"the run in {model_dir} has {field.name} {_text(theirs)}, not {_text(ours)}; go on with the same, "
                    "or give another --model-dir"
                )


# The files may have moved to another directory, and a resumed run may train other layers than before.
_MAY_CHANGE = ("data_dir", "freeze", "phases")


@dataclasses.dataclass(frozen=True)
class Training:
    """How a run is trained: its length, devices, evaluations and rates, as its flags say, or else the defaults.

    They may change when a run is resumed.
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
        """How many replicas train, those of all workers together."""
        return this_task().num_training_tasks * (self.gpus or self.replicas or 1)


def optimization_of(settings, training=None):
    """The `Optimization` of a run; without `training` what of it evaluation needs, too."""
    given = dataclasses.asdict(settings) | (dataclasses.asdict(training) if training else {})
    names = given.keys() & {field.name for field in dataclasses.fields(Optimization)}
    factor = training.num_replicas if training and training.scale_learning_rate else 1
    return Optimization(**{name: given[name] for name in names}, learning_rate_factor=factor)


def _check_types(settings):
    """Raises TypeError if one of them, which may come from a file, is of another type than `Settings` says."""
    for name, kind in typing.get_type_hints(Settings).items():
        value = getattr(settings, name)
        if not _is_of(value, kind):
            raise TypeError(f"{name} is {json.dumps(value)}")


def _is_of(value, kind):
    """Whether a value is of a type of `Settings`: a class, a tuple of one class, or one of these or None."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return any(_is_of(value, each) for each in typing.get_args(kind))
    if typing.get_origin(kind) is not tuple:
        return type(value) is kind
    each, *rest = typing.get_args(kind)
    is_any_length = rest == [Ellipsis]
    return type(value) is tuple and all(isinstance(item, each) for item in value) and (is_any_length or len(value) == 2)


def run_file(model_dir):
    """Path of the file that a run is described in."""
    return as_path(model_dir, "run.json")


def save_run(model_dir, settings, **about):
    """Writes the run.json of `model_dir`, completely or not at all: the settings, a dict, and facts about the run."""
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

# Settings of a recipe that may change when a run is resumed.
_FREE = ("recipe", "data_dir", "epochs", "max_steps", "split_over")


def check_same_settings(settings, path):
    """Refuses to continue the run of a recipe, described in the run.json at `path`, with different settings."""
    earlier = _read(path)["settings"]
    for name, ours in settings.items():
        theirs = tuple(value) if isinstance(value := earlier.get(name), list) else value
        if ours != theirs and name not in _FREE:
            raise click.ClickException(
                f"the run in {path.parent} has {name} {_text(theirs)}, not {_text(ours)}; go on with the same, or give "
                "another --model-dir"
            )


def flags_of(path):
    """The flags of `train`, by their names in Python, that make the run which the run.json at `path` describes."""
    values = _read(path)
    flags = values["settings"] | values.get("training", {})
    for name in ("class_names", "label_moments"):  # the dataset's
        flags.pop(name, None)
    if flags.get("task") == "classification":  # the default, which is not given as a flag
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
            raise ValueError("it has no settings of a run")
        if not isinstance(values.get("training", {}), dict):
            raise ValueError(f"its training is {json.dumps(values['training'])}")
    except (OSError, ValueError, RecursionError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}; it must be the run.json of a run") from error
    return values


def open_data(dataset, data_dir, *, limit, split, seed, task="classification", draw=True):
    """Opens the dataset of a run; the arguments are those of its settings.

    Without `draw`, an embedded dataset that is not there yet names the files that it will have.
    """
    options = {"split": split} if split else {}
    if task != "classification":
        options["task"] = task
    if not draw and dataset == datasets.NAMES[0]:
        options["draw"] = False
    with one_line_errors():
        return datasets.open_dataset(dataset, data_dir, limit=limit, limit_seed=seed or 0, **options)


@contextlib.contextmanager
def one_line_errors():
    """Errors of the user's input inside end as one line with exit code 2."""
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
    """Names that a statement at the top level of a file may give to the file, those of its branches too."""
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
    """Checks that `folder` can be written to, or made; whether a remote one can is seen when it is."""
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
    """Checks that TensorFlow does not take `--model-dir` for a pattern, and that a run can keep its files there."""
    folder = as_path(model_dir)
    try:
        absolute(model_dir)
        folder.exists()  # of a remote one, whether TensorFlow can tell
    except (ValueError, OSError) as error:
        raise click.ClickException(f"--model-dir {model_dir}: {error}") from error
    for path in [*(folder / name for name in _FILES), *folder.glob("model.ckpt-*.*")]:
        if path.exists() and not path.is_file():
            raise click.ClickException(f"{path} is not a file, and a run keeps one of that name; move it elsewhere")
    for path in (folder / name for name in _FOLDERS):
        if path.exists() and not path.is_dir():
            raise click.ClickException(f"{path} is not a folder, and a run keeps one of that name; move it elsewhere")


def _text(value):
    if value is None:
        return "its default"
    if not isinstance(value, tuple):
        return value
    return ("x" if isinstance(value[0], int) else ", ").join(map(str, value)) if value else "none"
