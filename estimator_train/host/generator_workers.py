"""Runs Python generators in worker processes, which start quickly because this module does not import TensorFlow.

`multiprocessing` would not do: its new processes run the main script again, unless everything in it is below
`if __name__ == "__main__"`, and it cannot pickle lambdas and functions of a script, which cloudpickle can.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import cloudpickle

_ROOT = str(Path(__file__).resolve().parents[2])
_PIPE_BYTES = 2**20  # the most that Linux allows an unprivileged user by default


@contextlib.contextmanager
def in_workers(functions):
    """Runs each of `functions` in its own process and returns iterators over what they yield.

    The processes end with the context. The iterators raise the errors that the functions raise, and RuntimeError if a
    process ends before its function does.
    """
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_worker()) for _ in functions]
        for (process, _), function in zip(workers, functions, strict=True):
            with contextlib.suppress(BrokenPipeError):  # it has ended, which reading from it reports
                pickle.dump(sys.path, process.stdin)
                cloudpickle.dump(function, process.stdin)
                process.stdin.flush()
        yield [_received(*worker) for worker in workers]


@contextlib.contextmanager
def _worker():
    """Starts a process that waits for its function; yields it and the pipe into which it writes the items."""
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe:
        _enlarge(pipe)
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import _main; _main()", str(writing)],
                stdin=subprocess.PIPE,
                pass_fds=[writing],
                # Workers must not take GPUs, which are for training. PYTHONPATH only has to lead to this package; the
                # user's sys.path is sent later.
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": _ROOT},
                start_new_session=True,  # Ctrl-C goes to the parent only, which ends its workers
            )
        finally:
            os.close(writing)
        try:
            yield process, pipe
        finally:
            process.kill()
            process.wait()
            process.stdin.close()


def _enlarge(pipe):
    """Enlarges the pipe, by default 64 kB, so that a worker can write examples while others are read."""
    import fcntl  # Windows has none

    if hasattr(fcntl, "F_SETPIPE_SZ"):  # Linux
        with contextlib.suppress(PermissionError):  # this user's pipes have reached their limit
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _received(process, pipe):
    while True:
        try:
            item = _read(pipe)
        except EOFError:
            code = process.wait()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code} before its data did"
            raise RuntimeError(f"a worker process of the generator {how}") from None
        if isinstance(item, _End):
            return
        if isinstance(item, _Raised):
            raise item.error from _InWorker(item.traceback)
        yield item


@dataclasses.dataclass(frozen=True)
class _Raised:
    error: Exception
    traceback: str


class _End:
    """The last item that a worker sends, once its function has ended."""


class _InWorker(Exception):
    """The cause of an error that a worker has sent; shows the traceback in the worker."""

    def __str__(self):
        return f"\n{self.args[0]}"


def _read(pipe):
    """Reads an item that `_write` has written. Arrays use the memory that they are read into, without a copy."""
    pickled, *buffers = [bytearray(size) for size in pickle.load(pipe)]
    for part in (pickled, *buffers):
        if pipe.readinto(part) < len(part):
            raise EOFError
    return pickle.loads(pickled, buffers=buffers)


def _write(item, pipe):
    """Writes `item`, without copying the arrays in it first. The item may be changed afterwards."""
    buffers = []
    pickled = pickle.dumps(item, protocol=5, buffer_callback=buffers.append)
    parts = [pickled, *(buffer.raw() for buffer in buffers)]
    pickle.dump([len(part) for part in parts], pipe)
    for part in parts:
        pipe.write(part)
    pipe.flush()


def _main():
    sys.path[:] = pickle.load(sys.stdin.buffer)
    with contextlib.suppress(BrokenPipeError), open(int(sys.argv[1]), "wb") as pipe:  # the parent has ended
        for item in _yielded(sys.stdin.buffer):
            _write(item, pipe)


def _yielded(file):
    """Yields what the function in `file` yields and, at the end, raises what it raised."""
    try:
        function = pickle.load(file)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        yield from function()
        yield _End()
    except Exception as error:
        yield _Raised(_sendable(error), traceback.format_exc())


def _end_with_parent():
    os.read(sys.stdin.fileno(), 1)  # nothing is ever written: it returns once the parent has closed it or ended
    os._exit(1)


def _sendable(error):
    """Returns `error`, or if it cannot be pickled, a RuntimeError with its type and message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # a user's class may raise anything when pickled
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
