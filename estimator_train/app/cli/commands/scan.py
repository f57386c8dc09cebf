"""estimator_train scan: says which names of TensorFlow in somebody's code work, without running it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from estimator_train._engine.host.files import printable
from estimator_train.app.cli.parameters import Value
from estimator_train.app.runs.values import File

if TYPE_CHECKING:
    from estimator_train.compat.scan import File as ScannedFile
    from estimator_train.compat.scan import Place

_EXAMPLES = """\b
Examples:
  estimator_train scan old_repository
  estimator_train scan old_repository --json
  estimator_train scan old_script.py
"""
_PHRASES = {
    "works": "works as it is",
    "tf1": "works under --tf1",
    "change": "needs a change",
    "absent": "absent",
    "not_python_3": "not Python 3",
    "not_read": "not read",
}
_HINTS = {"tf1": ", run with estimator_train run --tf1 SCRIPT; --json names them all"}
_SHOWN_LINES = 5


@click.command(epilog=_EXAMPLES)
@click.argument("path", type=Value(File()), metavar="PATH")
@click.option("--json", "as_json", is_flag=True, help="Write JSON with every name and line.")
def scan(path: str, as_json: bool) -> int:
    """Say which names of TensorFlow in a Python file or notebook, or in those of a folder, work.

    Each name works with `estimator_train run` as it is, works under --tf1, needs a change that the documentation
    describes, or is absent. The files are read, not run. The exit code is 0 if every file was read and no name needs a
    change or is absent, else 1.
    """
    if not os.path.exists(path):
        raise click.ClickException(f"{path}: there is no such file or folder")
    from estimator_train.compat import scan

    files = scan.scan(path)
    if not files:
        raise click.ClickException(f"{path}: there are no Python files or notebooks")
    verdicts = Counter(name.verdict for file in files for name in file.names)
    problems = Counter(file.problem for file in files if file.problem)
    if as_json:
        entries = {"names": dict(verdicts), "unread_files": dict(problems), "files": list(map(_entry, files))}
        click.echo(json.dumps(entries, indent=2))
    else:
        _show_all(files, verdicts, problems)
    return int(bool(problems or verdicts["change"] or verdicts["absent"]))


def _entry(file: ScannedFile) -> dict[str, Any]:
    names = [name._asdict() | {"places": [place._asdict() for place in name.places]} for name in file.names]
    return file._asdict() | {"names": names}


def _show_all(files: Sequence[ScannedFile], verdicts: Counter[str], problems: Mapping[str, int]) -> None:
    for file in files:
        _show(file)
    click.echo(f"{verdicts.total()} names in {len(files)} file{'s' if files[1:] else ''}")
    for key, count in {**verdicts, **problems}.items():
        click.echo(f"  {'files ' if key in problems else ''}{_PHRASES[key]}: {count}{_HINTS.get(key, '')}")


def _show(file: ScannedFile) -> None:
    """Prints what does not simply work in a file."""
    lines = [f"{_PHRASES[file.problem]}: {file.why}"] if file.problem else []
    for name in file.names:
        if name.verdict in ("change", "absent"):
            advice = f": {name.advice}" if name.advice else ""
            lines.append(f"{name.name} ({_lines(name.places)}) {_PHRASES[name.verdict]}{advice}")
    if with_tf1 := [name for name in file.names if name.verdict == "tf1"]:
        more = f" and {len(with_tf1) - 1} more" if with_tf1[1:] else ""
        lines.append(f"{with_tf1[0].name} ({_lines(with_tf1[0].places)}){more}: {_PHRASES['tf1']}")
    if lines:
        click.echo("\n".join(map(printable, [file.path, *(f"  {line}" for line in lines)])) + "\n")


def _lines(places: Sequence[Place]) -> str:
    shown = places[:_SHOWN_LINES]
    more = f" and {len(places) - len(shown)} more" if len(places) > len(shown) else ""
    if shown[0].cell:
        return "; ".join(f"cell {place.cell}, line {place.line}" for place in shown) + more
    return f"line{'s' if shown[1:] else ''} {', '.join(str(place.line) for place in shown)}{more}"
