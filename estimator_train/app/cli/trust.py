"""Asks before a command runs functions, or writes to folders, that the run.json of somebody else names.

The names that a user gives on the command line are recorded in the user's state directory, outside of every run, so
runs of their own on this machine go on without a question, even if they have been moved.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import platformdirs

from estimator_train._engine.host.files import printable, write_whole
from estimator_train._engine.host.paths import absolute

_FUNCTIONS = ("input_fn", "eval_input_fn", "callbacks")
_DRAWN = ("synthetic_oct", "cats_vs_dogs")  # written to data_dir if they are not there


def remember(settings: Mapping[str, Any]) -> None:
    """Records that the user has chosen the functions and folders in `settings`."""
    with contextlib.suppress(OSError):  # without a home that can be written, later commands ask
        for name in _named(settings):
            record = _record(name)
            record.parent.mkdir(parents=True, exist_ok=True)
            write_whole(record, printable(name) + "\n")


def check(path: Any, settings: Mapping[str, Any], trusts: bool) -> None:
    """Asks, if there is a terminal, whether to use the functions and folders in `settings` that are not recorded.

    Args:
      path: the run.json that has the settings.
      trusts: the value of --trust-run.

    Raises:
      click.ClickException: the user does not trust them, or cannot be asked.
    """
    unknown = [name for name in _named(settings) if not _record(name).exists()]
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
    remember(settings)


def _named(settings):
    """Returns the functions that a run with these settings runs, and the folders that it may write to.

    Paths are absolute: a relative one would name another file in another folder.
    """
    named = [settings.get(name) for name in _FUNCTIONS]
    if ":" in str(settings.get("model") or ""):
        named.append(settings["model"])
    if settings.get("cache") not in (None, "memory", "features"):
        named.append(settings["cache"])
    dataset, data_dir = str(settings.get("dataset")), str(settings.get("data_dir") or "")
    is_written = settings.get("recipe") or dataset in _DRAWN or dataset.startswith(("tfds:", "hf:"))
    if is_written and not data_dir.startswith("tfds:"):
        named.append(data_dir)
    return list(dict.fromkeys(absolute(str(name)) for name in named if name))


def _record(name):
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()
    return Path(platformdirs.user_state_dir("estimator_train"), "trusted", digest)
