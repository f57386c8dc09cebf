"""--json and --csv: what evaluate and predict print."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import click
import tabulate

from estimator_train.app.cli.conflicts import Excludes

RULES = (Excludes(("csv",), flag="json"),)


def format_options(csv_help: str) -> Callable[[Any], Any]:
    """Returns the decorator for --json and --csv."""

    def decorate(command):
        command = click.option("--csv", is_flag=True, help=csv_help)(command)
        return click.option("--json", is_flag=True, help="Write JSON with all digits.")(command)

    return decorate


def write(flags: SimpleNamespace, **forms: Callable[[], str]) -> None:
    """Prints what the function for the format returns; `forms` are those for `json`, `csv` and `table`."""
    click.echo(forms["json" if flags.json else "csv" if flags.csv else "table"]())


def as_json(value: Any) -> str:
    """Returns JSON over several lines."""
    return json.dumps(value, indent=2)


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Returns comma-separated values; the first row has the names."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().removesuffix("\n")


def as_table(rows: Iterable[Any], headers: Any = "keys") -> str:
    """Returns a table for people."""
    return tabulate.tabulate(rows, headers=headers, floatfmt=".4f", missingval="n/a")
