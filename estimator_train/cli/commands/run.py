"""estimator_train run: runs a script of tf.estimator's days, untouched."""

from __future__ import annotations

import functools
import importlib.util
import runpy
import sys
from pathlib import Path

import click

_EXAMPLES = """\b
Examples:
  estimator_train run old_script.py --its --own --flags
  estimator_train run -m package.module --its --own --flags
"""


@click.command(epilog=_EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is the name of a module, as in python -m.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def run(is_module, script, arguments):
    """Run a script that says tf.estimator.

    All that follows SCRIPT is the script's own; so are its tracebacks and its exit code. It finds tf.estimator,
    tf.compat.v1.estimator and tensorflow_estimator, and tf.keras is tf_keras.
    """
    # What python does: a script's folder comes first on the path; for a module, the current one.
    sys.path[0] = str(Path.cwd() if is_module else Path(script).resolve().parent)
    if is_module and importlib.util.find_spec(script.partition(".")[0]) is None:
        raise click.ClickException(f"No module named {script}")
    if not is_module and not Path(script).is_file():
        raise click.ClickException(f"{script}: there is no such script")
    sys.argv = [script, *arguments]
    return functools.partial(_start, is_module, script)


def _start(is_module, script):
    from estimator_train.drop_in import install  # TensorFlow comes with it

    install()
    sys.excepthook = functools.partial(_show_own_frames, sys.excepthook)
    if is_module:
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        # Absolute, as python makes __file__: scripts look for their data beside it, wherever they have gone to.
        runpy.run_path(str(Path(script).resolve()), run_name="__main__")


def _show_own_frames(show, kind, error, traceback):
    """An excepthook that leaves out the frames above the script's first."""
    while traceback and traceback.tb_frame.f_code is not _start.__code__:
        traceback = traceback.tb_next
    traceback = traceback and traceback.tb_next
    while traceback and traceback.tb_frame.f_globals.get("__name__") == "runpy":
        traceback = traceback.tb_next
    show(kind, error.with_traceback(traceback), traceback)
