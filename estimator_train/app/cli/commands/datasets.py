"""estimator_train datasets: lists the datasets, or downloads one."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import click
import tabulate

from estimator_train._engine.host.files import printable
from estimator_train.app import datasets as data_sets
from estimator_train.app.cli.parameters import Value
from estimator_train.app.errors import one_line_errors
from estimator_train.app.runs.values import Directory

if TYPE_CHECKING:
    from estimator_train.app.datasets import hf, tfds

_YES = {True: "yes", False: "no"}


@click.group(invoke_without_command=True)
@click.pass_context
def datasets(context: click.Context) -> None:
    """List the datasets, or download one.

    \b
      estimator_train datasets
      estimator_train datasets download oct2017 --data-dir FOLDER
    """
    if context.invoked_subcommand is None:
        rows = [_row(name, data_sets.named(name)) for name in (*data_sets.names(), "tfds:NAME", "hf:NAME")]
        click.echo(tabulate.tabulate(rows, ["name", "task", "size", "from", "here"]))


@datasets.command()
@click.argument("name")
@click.option(
    "--data-dir",
    type=Value(Directory()),
    help="Directory to download to.  [default: where training without --data-dir looks]",
)
def download(name: str, data_dir: str | None) -> None:
    """Download a dataset, continuing where an earlier download was interrupted."""
    with one_line_errors():
        folder = data_sets.download(name, data_dir)
        counts = data_sets.open_dataset(name, data_dir).class_counts()
    click.echo(f"{name} is in {folder}")
    if counts:
        rows = [[printable(name), number, counts["eval"][name]] for name, number in counts["train"].items()]
        click.echo(tabulate.tabulate(rows, ["class", "to train on", "to evaluate on"]))


def _row(name: str, module: ModuleType | hf.Named | tfds.Named) -> list[str]:
    is_here = ""
    if hasattr(module, "is_here") and name not in ("tfds:NAME", "hf:NAME"):
        is_here = _YES[module.is_here()]
    return [name, *module.ABOUT, is_here]
