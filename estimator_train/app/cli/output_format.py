"""--json and --csv: what evaluate and predict print."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable
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


def write(flags: SimpleNamespace, entries: Callable[[], Any], rows: Callable[[], Any], text: Callable[[], str]) -> None:
    """Prints entries as JSON, or rows as comma-separated values, the first with their names, or else a text."""
    if flags.json:
        click.echo(json.dumps(entries(), indent=2))
    elif flags.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows(rows())
    else:
        click.echo(text())


def as_table(rows: Iterable[Any], headers: Any = "keys") -> str:
    """Returns a table for people."""
    return tabulate.tabulate(rows, headers=headers, floatfmt=".4f", missingval="n/a")
