"""--json, --csv and --out: the formats that evaluate and predict print, or write to a file."""

import importlib.util
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import click
import tabulate
from cloup.typing import F

from estimator_train._engine.host.files import printable, write_whole
from estimator_train.app.errors import SettingError, one_line_errors
from estimator_train.app.runs import csv_text
from estimator_train.app.runs.rules import Excludes

RULES = (Excludes(("csv",), name="json"),)


def format_options(csv_help: str) -> Callable[[F], F]:
    """Returns the decorator for --json and --csv."""

    def decorate(command: F) -> F:
        command = click.option("--csv", is_flag=True, help=csv_help)(command)
        return click.option("--json", is_flag=True, help="Write JSON with all digits.")(command)

    return decorate


def write(
    flags: SimpleNamespace,
    entries: Sequence[Mapping[str, Any]],
    rows: Iterable[Sequence[Any]],
    text: Callable[[], str],
) -> None:
    """Prints entries as JSON, or rows as comma-separated values, the first with their names, or else a text."""
    if flags.json:
        click.echo(_json(entries), nl=False)
    elif flags.csv:
        click.echo(csv_text.text_of(rows), nl=False)
    else:
        click.echo("\n".join(map(printable, text().splitlines())))


def check_out(file: str) -> None:
    """Rejects a file of a format that `write_file` could not write: an unknown ending, or no pyarrow."""
    ending = _ending(file)
    if ending not in _FORMATS:
        raise SettingError("{out} {0}: give a name that ends in {1}", file, ", ".join(_FORMATS))
    if ending == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise SettingError("{out} {0}: pyarrow is not installed: pip install pyarrow, or give a .csv file", file)


def write_file(file: str, entries: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[Any]]) -> None:
    """Writes entries as JSON, or rows, the first with their names, as CSV or Parquet, as the ending of `file` says."""
    with one_line_errors():
        write_whole(file, _FORMATS[_ending(file)](entries, rows))


def as_table(rows: Iterable[Sequence[Any] | Mapping[str, Any]], headers: str | Sequence[str] = "keys") -> str:
    """Formats rows, of which the first says which columns are texts: a class 2.5 is no number to be rounded."""
    rows = list(rows)
    first = next(iter(rows), ())
    values = first.values() if isinstance(first, dict) else first
    texts = [place for place, value in enumerate(values) if isinstance(value, str)]
    return tabulate.tabulate(rows, headers=headers, floatfmt=".4f", missingval="n/a", disable_numparse=texts)


def _json(entries: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(entries, indent=2) + "\n"


def _parquet(rows: Sequence[Sequence[Any]]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    names, *rows = rows
    columns = [pyarrow.array([row[place] for row in rows]) for place in range(len(names))]
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=names), file)
    return file.getvalue()


def _ending(file: str) -> str:
    return os.path.splitext(file)[1].lower()


# By the endings of files.
_FORMATS: Mapping[str, Callable[[Sequence[Mapping[str, Any]], Sequence[Sequence[Any]]], str | bytes]] = {
    ".csv": lambda entries, rows: csv_text.text_of(rows),
    ".json": lambda entries, rows: _json(entries),
    ".parquet": lambda entries, rows: _parquet(rows),
}
