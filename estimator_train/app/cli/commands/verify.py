"""estimator_train verify: runs a script on an old TensorFlow and on today's, and compares what they give."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import tabulate

from estimator_train._engine.host.files import printable
from estimator_train._engine.host.logs import logging_only
from estimator_train.app.cli.parameters import Value
from estimator_train.app.errors import one_line_errors
from estimator_train.app.running.startup import starting_tensorflow
from estimator_train.app.runs.values import Directory, File, Number

if TYPE_CHECKING:
    from estimator_train.compat.verify import Verification
    from estimator_train.compat.verify.comparison import Compared
    from estimator_train.compat.verify.results import Name

_EXAMPLES = """\b
Examples:
  estimator_train verify old_script.py --python215 tf215/bin/python
  estimator_train verify old_script.py --python215 tf215/bin/python --file data.csv -- --its --own --flags
  estimator_train verify -m package.module --python215 tf215/bin/python --same-initial-values
  estimator_train verify --tf1 script_of_2018.py --python215 tf115/bin/python
"""
_SHOWN = 10
_LONGEST_NAME = 80


@click.command(epilog=_EXAMPLES)
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is the name of a module, as in python -m.")
@click.argument("script", type=Value(File()), metavar="SCRIPT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]...")
@click.option("--python215", type=Value(File("PYTHON")), required=True, help="A Python with TensorFlow 2.15 or 1.15.")
@click.option("--tf1", is_flag=True, help="Run the script with --tf1 on today's TensorFlow.")
@click.option(
    "--same-initial-values", is_flag=True, help="Start both from the old initial values; compare those of each apart."
)
@click.option(
    "--file", "files", type=Value(File("PATH")), multiple=True, help="Give each run a copy of this file or folder."
)
@click.option("--time-limit", type=Value(Number("SECONDS", positive=True)), help="Stop a run that takes longer.")
@click.option("--tolerance", type=Value(Number("SHARE")), default=1e-5, show_default=True, help="Difference to allow.")
@click.option("--out", type=Value(Directory()), help="Keep the files of both runs in this new folder.")
def verify(
    script: str,
    arguments: tuple[str, ...],
    is_module: bool,
    python215: str,
    tf1: bool,
    out: str | None,
    **settings: Any,
) -> int:
    """Compare what SCRIPT does on today's TensorFlow with what it did on an old one.

    It runs with the old Python and then by estimator_train run, each time in a directory of its own. Checkpoints,
    scalars in event files, printed numbers and predictions of exports are compared. The exit code is 0 if they are
    equal, else 1.
    """
    if not is_module and not os.path.isfile(script):
        raise click.ClickException(f"{script}: there is no such script")
    python = shutil.which(python215)
    if python is None:
        raise click.ClickException(f"--python215 {python215}: there is no such program")
    if out and os.path.exists(out):
        raise click.ClickException(f"--out {out} already exists; give a new folder")
    flags = ["--tf1"] if tf1 else []
    with contextlib.ExitStack() as stack:
        directory = out or stack.enter_context(tempfile.TemporaryDirectory())
        with starting_tensorflow():
            from estimator_train.compat import verify
        with one_line_errors(), logging_only(lambda record: " is deprecated " not in record.getMessage()):
            settings |= {"python": os.path.abspath(python), "directory": directory, "flags": flags}
            result = verify.verify(script, arguments, is_module=is_module, **settings)
    return _show(result, settings["tolerance"], settings["same_initial_values"])


def _show(result: Verification, tolerance: float, same_initial_values: bool) -> int:
    for version, run in zip(result.versions, result.runs, strict=True):
        click.echo(f"TensorFlow {version}: {run.seconds:.1f} s")
    _show_comparison(result, tolerance)
    if result.runs[1].code:
        click.echo(f"\nthe script fails with TensorFlow {result.versions[1]}: {printable(result.runs[1].last_line)}")
    if result.not_compared:
        click.echo(f"\nnot compared: {printable('; '.join(result.not_compared))}")
    if result.comparison.largest > tolerance:
        click.echo(f"\n{_how_different(result, tolerance, same_initial_values)}{_hint_on_seeds(result, tolerance)}")
        return 1
    click.echo(f"\nequal up to {result.comparison.largest:.1e}")
    return 0


def _how_different(result: Verification, tolerance: float, same_initial_values: bool) -> str:
    """Returns the last line, which says whether chance may be the reason."""
    noise, old = result.noise, result.versions[0]
    if noise is None:
        return "different"
    if not noise.explains(result.comparison, tolerance):
        return f"different; a second run with TensorFlow {old} differs from the first by {noise.comparison.largest:.1e}"
    seeds = "a seed to shuffle(), to dropout, and to the random numbers of NumPy and Python"
    if noise.in_initial_values and not same_initial_values:
        seeds = f"--same-initial-values, and {seeds}"
    return f"different, but so are two runs with TensorFlow {old}, and chance can hide a difference: give {seeds}"


def _hint_on_seeds(result: Verification, tolerance: float) -> str:
    """Returns what to do with a seed, from which TensorFlow 1 draws other initial values; empty if none differ."""
    old, noise = result.versions[0], result.noise
    differs = any(each.difference > tolerance for each in result.comparison.compared if each.name.step == 0)
    if not old.startswith("1.") or not differs or (noise and noise.in_initial_values):
        return ""
    return (
        f"; TensorFlow {old} draws other numbers from a seed: if the script seeds its graphs, leave that out, and give "
        "--same-initial-values"
    )


def _show_comparison(result: Verification, tolerance: float) -> None:
    kinds = defaultdict(list)
    for each in result.comparison.compared:
        kinds[each.name.kind].append(each)
    _table([_of_kind(*item) for item in kinds.items()], "compared", "values", "steps", "largest difference")
    headers = ["different, the first one first", "step", *result.versions, "difference"]
    of_two_runs = None
    if result.noise:
        headers.append(f"{result.versions[0]} twice")
        of_two_runs = result.noise.differences
    different = [each for each in result.comparison.compared if each.difference > tolerance]
    _table([_different(each, of_two_runs) for each in different], *headers)
    only = result.comparison.only_old, result.comparison.only_new
    for version, names in zip(result.versions, only, strict=True):
        _table([(_shown(name), name.step) for name in names], f"only on TensorFlow {version}", "step")


def _table(rows: Sequence[Sequence[Any]], *headers: str) -> None:
    if rows:
        shown = [["" if cell is None else cell for cell in row] for row in rows[:_SHOWN]]
        click.echo("\n" + tabulate.tabulate(shown, headers, disable_numparse=True))
    if rows[_SHOWN:]:
        click.echo(f"and {len(rows) - _SHOWN} more")


def _of_kind(kind: str, entries: Sequence[Compared]) -> tuple[str, int, str | None, str]:
    steps = sorted({each.name.step for each in entries} - {None})
    largest = max(each.difference for each in entries)
    shown = f"{steps[0]} to {steps[-1]}" if steps else None
    return kind, sum(each.values for each in entries), shown, f"{largest:.1e}"


def _different(compared: Compared, of_two_runs: Mapping[object, float] | None) -> tuple[str | int | None, ...]:
    values = (f"{value:.8g}" if isinstance(value, float) else printable(str(value)) for value in compared[2:4])
    differences: list[float | None] = [compared.difference]
    if of_two_runs is not None:
        differences.append(of_two_runs.get(compared.name))
    shown = ("" if difference is None else f"{difference:.1e}" for difference in differences)
    return _shown(compared.name), compared.name.step, *values, *shown


def _shown(name: Name) -> str:
    text = printable(str(name))
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"
