"""What a run is made of: read from flags, kept in the run folder, and checked, all without TensorFlow."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import os
from pathlib import Path

import click

_FILE = "run.json"


@dataclasses.dataclass(frozen=True)
class Settings:
    """The data and the model of a run, as given or as the data set has them by default.

    `input_fn`, `eval_input_fn` and, in place of a name, `model` are FILE:FUNCTION of the user's own.
    """

    dataset: str | None
    data_dir: str | None
    input_fn: str | None
    eval_input_fn: str | None
    model: str
    weights: str | None
    image_size: tuple[int, int] | None
    class_names: tuple[str, ...]
    batch_size: int
    seed: int | None

    def save(self, model_dir):
        """Keeps the settings in `model_dir`, whole or not at all."""
        path = Path(model_dir) / _FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".part").write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        path.with_suffix(".part").replace(path)

    @classmethod
    def load(cls, model_dir):
        """The settings of the run in `model_dir`, or None where there is no run."""
        path = Path(model_dir) / _FILE
        if not path.exists():
            return None
        try:
            values = json.loads(path.read_text())
            lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            return cls(**values | lists)
        except (ValueError, TypeError) as error:
            raise click.ClickException(f"{path} cannot be read: {error}; delete it, or use another folder") from error

    @classmethod
    def of_run(cls, model_dir):
        """The settings of the run that must be in `model_dir`."""
        if not Path(model_dir).is_dir():
            raise click.ClickException(f"--model-dir {model_dir}: there is no such folder")
        settings = cls.load(model_dir)
        if settings is None:
            raise click.ClickException(f"--model-dir {model_dir} holds no run: it has no run.json")
        return settings

    def check_same_model(self, other, model_dir):
        """Refuses to go on in a folder whose checkpoints are of another model or of other classes."""
        for field in ("model", "image_size", "class_names"):
            ours, theirs = getattr(self, field), getattr(other, field)
            if ours != theirs:
                raise click.ClickException(
                    f"the run in {model_dir} has {field} {_text(theirs)}, not {_text(ours)}; use another --model-dir"
                )


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
    """Checks that `folder` can be written to, or made."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise click.ClickException(f"{flag} {path} is a file; give a folder")
    existing = next(parent for parent in [path.absolute(), *path.absolute().parents] if parent.exists())
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        raise click.ClickException(f"{flag} {path}: no permission to write in {existing}")


def checkpoint_prefix(path):
    """The path prefix of the checkpoint that `--checkpoint` gives, which must be there; None where it gives none."""
    prefix = path and path.removesuffix(".index")
    if prefix and not Path(f"{prefix}.index").exists():
        raise click.ClickException(f"--checkpoint {prefix}: there is no such checkpoint")
    return prefix


def _text(value):
    if not isinstance(value, tuple):
        return value
    return ("x" if isinstance(value[0], int) else ", ").join(map(str, value)) if value else "none"
