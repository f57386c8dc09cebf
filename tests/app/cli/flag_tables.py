"""Writes the section of docs/flags.md that lists the flags of `train`, from the table of settings.

`python -m tests.app.cli.flag_tables` replaces it; tests/app/cli/test_settings.py compares it word by word.
"""

from __future__ import annotations

from pathlib import Path

import click

from estimator_train.app.cli.commands.train import train
from estimator_train.app.cli.invocation import TABLE
from estimator_train.app.errors import as_flag
from estimator_train.app.runs.fields import help_of, settings_in
from estimator_train.app.runs.spec import STORED, Training

PAGE = Path(__file__).parents[3] / "docs" / "flags.md"
START, END = "## All flags of training\n", "\n## Exit codes\n"

_INTRODUCTION = """
The last column says whether a resumed run may have another value; flags without an entry belong to a single call.
"""


def section() -> str:
    """Returns the section, between its heading and the next one."""
    groups = {}
    for table in TABLE:
        for name, setting in settings_in(table).items():
            groups.setdefault(setting.group, []).append(_row(table, name, setting))
    return _INTRODUCTION + "".join(_of_group(name, rows) for name, rows in groups.items())


def in_page(text: str) -> str:
    """Returns the section of a page."""
    return text.partition(START)[2].partition(END)[0]


def _of_group(name, rows):
    return "\n".join([f"\n| {name} | | `--resume` |", "|---|---|---|", *rows, ""])


def _row(table, name, setting):
    context = click.Context(train)
    (option,) = (each for each in train.params if each.name == name)
    value = "" if setting.kind is None else f" {option.make_metavar(context)}"
    resumed = "may change" if setting.may_change or table is Training else "fixed"
    cells = [
        f"`{as_flag(name)}{value}`",
        help_of(table, name),
        resumed if table in STORED else "",
    ]
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    page = PAGE.read_text()
    before, _, after = page.partition(START)
    PAGE.write_text(f"{before}{START}{section()}{END}{after.partition(END)[2]}")
