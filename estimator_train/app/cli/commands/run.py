"""estimator_train run: runs a script written for tf.estimator, unmodified."""

import functools
import importlib.util
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import click

from estimator_train._engine.host.interruption import Terminated, interruption
from estimator_train.app.cli.parameters import Value
from estimator_train.app.running.messages import warn
from estimator_train.app.runs.values import Count

_EXAMPLES = """\b
Examples:
  estimator_train run old_script.py --its --own --flags
  estimator_train run -m package.module --its --own --flags
  estimator_train run --tf1 --replicas 2 script_of_2018.py
"""


@click.command(epilog=_EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is the name of a module, as in python -m.")
@click.option(
    "--tf1", is_flag=True, help="Run a TensorFlow 1 script: import tensorflow provides its names and tf.contrib."
)
@click.option("--gpus", type=Value(Count()), metavar="N", help="Show the script only the first N GPUs.")
@click.option(
    "--replicas",
    type=Value(Count()),
    metavar="N",
    help="Create strategies over missing GPUs on N CPU replicas instead.",
)
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def run(
    is_module: bool, tf1: bool, gpus: int | None, replicas: int | None, script: str, arguments: tuple[str, ...]
) -> Callable[[], int]:
    """Run a script that uses tf.estimator.

    Everything after SCRIPT belongs to the script, which keeps its tracebacks and its exit code. It can use
    tf.estimator, tf.compat.v1.estimator and tensorflow_estimator, and tf.keras is tf_keras.
    """
    # As python does: the script's directory comes first on the path, or, for a module, the current directory.
    if is_module:
        sys.path[0] = str(Path.cwd())
        if importlib.util.find_spec(script.partition(".")[0]) is None:
            raise click.ClickException(f"No module named {script}")
    else:
        sys.path[0] = str(Path(script).resolve().parent)
        if not Path(script).is_file():
            raise click.ClickException(f"{script}: there is no such script")
    if gpus or replicas:
        from estimator_train.app.running import devices  # imports TensorFlow

        devices.choose(gpus, replicas)
    sys.argv = [script, *arguments]
    return functools.partial(_start, is_module, script, tf1, replicas)


def _start(is_module: bool, script: str, tf1: bool, replicas: int | None) -> int:
    from estimator_train.compat import doctor

    doctor.watch(replicas)
    with_tf1 = None
    if tf1:
        from estimator_train.compat.tf1 import install

        install()
        _print_once()
    else:
        from estimator_train.compat.drop_in import install

        install()
        with_tf1 = f"estimator_train run --tf1 {'-m ' * is_module}{script}"
    sys.excepthook = functools.partial(_show, sys.excepthook, functools.partial(doctor.remedy, command=with_tf1))
    interruption.handle_sigterm()
    try:
        if is_module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            # Absolute, like python's __file__: scripts look for data next to it, even after changing directory.
            runpy.run_path(str(Path(script).resolve()), run_name="__main__")
    except Terminated:
        warn("stopped by SIGTERM; a training that was saved continues in a new run")
        return 128 + signal.SIGTERM
    return 0


def _print_once() -> None:
    """Prints each line of TensorFlow's logger once, though scripts have logging to the root too, and deprecations once.

    tf.app.run adds absl's handler to the root, and logging.basicConfig one that prints as TensorFlow's does.
    """
    import logging
    import warnings

    import absl.logging

    logger = logging.getLogger("tensorflow")
    for handler in logger.handlers:
        handler.addFilter(lambda _: not any(type(other) is logging.StreamHandler for other in logging.root.handlers))
    absl.logging.get_absl_handler().addFilter(lambda record: record.name != logger.name or not logger.handlers)
    warnings.filterwarnings("once", ".*is deprecated and will be removed", append=True)


def _show(
    show: Callable[[type[BaseException], BaseException, TracebackType | None], object],
    remedy: Callable[[BaseException], str | None],
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
) -> None:
    """An excepthook that hides our own frames, and adds the line that `remedy` returns for the error, if any."""
    line = remedy(error)
    while traceback and traceback.tb_frame.f_code is not _start.__code__:
        traceback = traceback.tb_next
    traceback = traceback and traceback.tb_next
    while traceback and traceback.tb_frame.f_globals.get("__name__") == "runpy":
        traceback = traceback.tb_next
    show(kind, error.with_traceback(traceback), traceback)
    if line:
        warn(line)
