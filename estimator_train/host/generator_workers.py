"""Python generators in processes of their own. TensorFlow is not imported here, so that these start in a moment.

Not by `multiprocessing`, whose new processes run the main script once more, unless all that it does is below
`if __name__ == "__main__"`; and functions of a script, and lambdas, can be sent only by cloudpickle.
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
_PIPE_BYTES = 2**20  # as much as Linux lets any user have


@contextlib.contextmanager
def in_workers(functions):
    """Gives an iterator over what each of `functions` yields, called in a process of its own, ended with the context.

    The iterators raise what the functions raise; RuntimeError where a process ends before its function.
    """
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_worker()) for _ in functions]
        for (process, _), function in zip(workers, functions, strict=True):
            with contextlib.suppress(BrokenPipeError):  # it has ended, which is reported where it is read
                pickle.dump(sys.path, process.stdin)
                cloudpickle.dump(function, process.stdin)
                process.stdin.flush()
        yield [_received(*worker) for worker in workers]


@contextlib.contextmanager
def _worker():
    """A process that waits for its function, and the pipe into which it writes what that yields."""
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe:
        _enlarge(pipe)
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import _main; _main()", str(writing)],
                stdin=subprocess.PIPE,
                pass_fds=[writing],
                # The devices are for training. A directory of the user's in front of this package is in sys.path later.
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": _ROOT},
                start_new_session=True,  # Ctrl-C is for the parent, which ends its workers
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
    """Makes room for some examples, which a worker writes while others are read: the system's default is 64 kB."""
    import fcntl  # Windows has none

    if hasattr(fcntl, "F_SETPIPE_SZ"):  # Linux
        with contextlib.suppress(PermissionError):  # all pipes of this user have too much already
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
    """The last that a worker sends, where its function has come to its end."""


class _InWorker(Exception):
    """The cause of an error that a worker has sent: its traceback there."""

    def __str__(self):
        return f"\n{self.args[0]}"


def _read(pipe):
    """What `_write` has written. Arrays lie in the memory that they are read into."""
    pickled, *buffers = [bytearray(size) for size in pickle.load(pipe)]
    for part in (pickled, *buffers):
        if pipe.readinto(part) < len(part):
            raise EOFError
    return pickle.loads(pickled, buffers=buffers)


def _write(item, pipe):
    """Writes `item`, and the memory of the arrays in it without a copy. It may be changed afterwards."""
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
    os.read(sys.stdin.fileno(), 1)  # there is nothing to read: it returns when the parent closes it, however it ends
    os._exit(1)


def _sendable(error):
    """`error`, or a RuntimeError of its type and message where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a class of the user's raises in pickling
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
