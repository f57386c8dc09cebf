"""Keeps the output of a notebook's cells short."""

import contextlib
import io
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

from estimator_train._engine.host.logs import logging_only

_LOG = logging.getLogger("tensorflow")

# Lines about sessions, checkpoints and configs. Those with losses and metrics are shown, and so are the user's own.
_BOOKKEEPING = (
    "Using config: ",
    "Start train and evaluate loop. ",
    "Calling model_fn.",
    "Done calling model_fn.",
    "Reduce to /",
    "Collective all_reduce tensors: ",
    "batch_all_reduce: ",
    "Create CheckpointSaverHook.",
    "Graph was finalized.",
    "Running local_init_op.",
    "Done running local_init_op.",
    "Restoring parameters from ",
    "Calling checkpoint listeners ",
    "Saving checkpoints for ",
    "Saving 'checkpoint_path' summary ",
    "Starting evaluation at ",
    "Inference Time : ",
    "Finished evaluation at ",
)
_PROGRESS = re.compile(r"loss = \S+, step = |global_step/sec: ")  # lines whose numbers a progress bar shows, too


def is_kernel() -> bool:
    """Returns whether this process is the kernel of a notebook, as tqdm.auto decides it."""
    return "ipykernel.zmqshell" in sys.modules


def shorten_outputs() -> None:
    """Imports TensorFlow without its notes on how it was built, and drops log lines about sessions and checkpoints.

    The tracebacks of an interrupted training, and of errors that this package raises, end at the call of this package.

    In a notebook, and only there, TensorFlow logs at level INFO. Its warnings that it calls deprecated functions of its
    own are dropped too. `tf.get_logger().setLevel("DEBUG")` shows all lines.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with _to_the_servers_log():
        import tensorflow
    own_functions = f"From {os.path.dirname(tensorflow.__file__)}"
    dropped = {logging.INFO: _BOOKKEEPING, logging.WARNING: (own_functions,)}

    def is_shown(record: logging.LogRecord) -> bool:
        return _LOG.level != logging.INFO or not record.getMessage().startswith(dropped.get(record.levelno, ()))

    _LOG.addFilter(is_shown)
    _shorten_tracebacks()


@contextlib.contextmanager
def without_progress_lines(hooks: Iterable[Any]) -> Iterator[None]:
    """Drops the log lines of loss and speed in the block if one of the hooks draws a progress bar in a notebook."""
    if not is_kernel() or not any(getattr(hook, "draws_bar", False) for hook in hooks):
        yield
        return

    def is_shown(record: logging.LogRecord) -> bool:
        return _LOG.level != logging.INFO or not _PROGRESS.match(record.getMessage())

    with logging_only(is_shown):
        yield


def _shorten_tracebacks() -> None:
    from IPython import get_ipython

    def show(shell: Any, kind: type, error: BaseException, tb: TracebackType, tb_offset: int | None = None) -> None:
        frames = [tb]
        while frames[-1].tb_next:
            frames.append(frames[-1].tb_next)
        ours = [frame for frame in frames if _is_ours(frame)]
        if ours and (kind is KeyboardInterrupt or _is_ours(frames[-1])):
            ours[0].tb_next = error.__context__ = None
        # What IPython itself calls for an error of a cell; the last argument is for a SyntaxError that eval() raises.
        shell.showtraceback((kind, error, tb), tb_offset=tb_offset, running_compiled_code=True)

    shell = get_ipython()
    if shell and not shell.custom_exceptions:  # the user's own handler stays
        shell.set_custom_exc((KeyboardInterrupt, Exception), show)


def _is_ours(frame: TracebackType) -> bool:
    return frame.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "estimator_train"


@contextlib.contextmanager
def _to_the_servers_log() -> Iterator[None]:
    """Sends what C++ code prints to the log of the notebook's server, where nothing gets lost, not to the cell."""
    try:
        servers_log = sys.stderr.fileno()  # ipykernel has moved it there, and reads file descriptor 2
    except io.UnsupportedOperation:  # older ones leave file descriptor 2 as it is
        yield
        return
    to_the_cell = os.dup(2)
    os.dup2(servers_log, 2)
    try:
        yield
    finally:
        os.dup2(to_the_cell, 2)
        os.close(to_the_cell)
