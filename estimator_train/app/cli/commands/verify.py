"""estimator_train verify: runs a script on an old TensorFlow and on today's, and compares what they give."""

import contextlib
import os
import shutil
import tempfile
from collections import defaultdict

import click
import tabulate

from estimator_train._engine.host.files import printable
from estimator_train._engine.host.logs import logging_only
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.parameters import Directory, File, Number
from estimator_train.app.cli.startup import starting_tensorflow

_EXAMPLES = """\b
Examples:
  estimator_train verify old_script.py --python215 tf215/bin/python
  estimator_train verify old_script.py --python215 tf215/bin/python --file data.csv -- --its --own --flags
"""
_SHOWN = 10
_LONGEST_NAME = 80


@click.command(epilog=_EXAMPLES)
@click.argument("script", type=File(), metavar="SCRIPT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]...")
@click.option("--python215", type=File("PYTHON"), required=True, help="A Python with TensorFlow 2.15 or 1.15.")
@click.option("--tf1", is_flag=True, help="Run the script with --tf1 on today's TensorFlow.")
@click.option("--same-initial-values", is_flag=True, help="Start both from the initial values of the old TensorFlow.")
@click.option("--file", "files", type=File("PATH"), multiple=True, help="Give each run a copy of this file or folder.")
@click.option("--time-limit", type=Number("SECONDS", positive=True), help="Stop a run that takes longer.")
@click.option("--tolerance", type=Number("SHARE"), default=1e-5, show_default=True, help="Difference to allow.")
@click.option("--out", type=Directory(), help="Keep the files of both runs in this new folder.")
def verify(script, arguments, python215, tf1, tolerance, out, **settings):
    """Compare what SCRIPT does on today's TensorFlow with what it did on an old one.

    It runs with the old Python and then by estimator_train run, each time in a directory of its own. Checkpoints,
    scalars in event files, printed numbers and predictions of exports are compared. The exit code is 0 if they are
    equal, else 1.
    """
    if not os.path.isfile(script):
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
            result = verify.verify(script, arguments, **settings)
    return _show(result, tolerance)


def _show(result, tolerance):
    for version, run in zip(result.versions, result.runs, strict=True):
        click.echo(f"TensorFlow {version}: {run.seconds:.1f} s")
    _show_comparison(result.comparison, result.versions, tolerance)
    if result.runs[1].code:
        click.echo(f"\nthe script fails with TensorFlow {result.versions[1]}: {printable(result.runs[1].last_line)}")
    if result.not_compared:
        click.echo(f"\nnot compared: {printable('; '.join(result.not_compared))}")
    if result.comparison.largest > tolerance:
        click.echo("\ndifferent")
        return 1
    click.echo(f"\nequal up to {result.comparison.largest:.1e}")
    return 0


def _show_comparison(comparison, versions, tolerance):
    kinds = defaultdict(list)
    for each in comparison.compared:
        kinds[each.name.kind].append(each)
    _table([_of_kind(*item) for item in kinds.items()], "compared", "values", "steps", "largest difference")
    different = [each for each in comparison.compared if each.difference > tolerance]
    _table(list(map(_different, different)), "different, the first one first", "step", *versions, "difference")
    for version, names in zip(versions, (comparison.only_old, comparison.only_new), strict=True):
        _table([(_shown(name), name.step) for name in names], f"only on TensorFlow {version}", "step")


def _table(rows, *headers):
    if rows:
        shown = [["" if cell is None else cell for cell in row] for row in rows[:_SHOWN]]
        click.echo("\n" + tabulate.tabulate(shown, headers, disable_numparse=True))
    if rows[_SHOWN:]:
        click.echo(f"and {len(rows) - _SHOWN} more")


def _of_kind(kind, entries):
    steps = sorted({each.name.step for each in entries} - {None})
    largest = max(each.difference for each in entries)
    shown = f"{steps[0]} to {steps[-1]}" if steps else None
    return kind, sum(each.values for each in entries), shown, f"{largest:.1e}"


def _different(compared):
    values = (f"{value:.8g}" if isinstance(value, float) else printable(str(value)) for value in compared[2:4])
    return _shown(compared.name), compared.name.step, *values, f"{compared.difference:.1e}"


def _shown(name):
    text = printable(str(name))
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"
