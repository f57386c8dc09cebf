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
import numpy as np

from estimator_train._engine.host import shared_ring

_ROOT = str(Path(__file__).resolve().parents[3])
_CREDIT_BYTES = 8


@contextlib.contextmanager
def in_workers(functions):
    """Runs each of `functions` in its own process and returns iterators over what they yield.

    An item's arrays may lie in memory that is used again once the next item is taken from the iterator. The processes
    end with the context. The iterators raise the errors that the functions raise, and RuntimeError if a process ends
    before its function does.
    """
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_worker()) for _ in functions]
        for (process, *_), function in zip(workers, functions, strict=True):
            with contextlib.suppress(BrokenPipeError):  # it has ended, which reading from it reports
                pickle.dump(sys.path, process.stdin)
                cloudpickle.dump(function, process.stdin)
                process.stdin.flush()
        yield [_received(*worker) for worker in workers]


@contextlib.contextmanager
def _worker():
    """Starts a process that waits for its function; yields it, the pipe that it writes items to, and their ring."""
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe, shared_ring.create() as memory:
        descriptors = [writing, memory]
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import _main; _main()", *map(str, descriptors)],
                stdin=subprocess.PIPE,
                pass_fds=descriptors,
                # Workers must not take GPUs, which are for training. PYTHONPATH only has to lead to this package; the
                # user's sys.path is sent later.
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": _ROOT},
                start_new_session=True,  # Ctrl-C goes to the parent only, which ends its workers
            )
        finally:
            os.close(writing)
        try:
            yield process, pipe, shared_ring.Ring(memory)
        finally:
            process.kill()
            process.wait()
            with contextlib.suppress(BrokenPipeError):  # of a release that it has not read
                process.stdin.close()


def _received(process, pipe, ring):
    while True:
        try:
            item, taken = _read(pipe, ring)
        except EOFError:
            code = process.wait()
            end = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code} before its data did"
            raise RuntimeError(f"a worker process of the generator {end}") from None
        if isinstance(item, _End):
            return
        if isinstance(item, _Raised):
            raise item.error from _InWorker(item.traceback)
        yield item
        if taken:
            with contextlib.suppress(BrokenPipeError):  # it has sent its last item and ended
                process.stdin.write(taken.to_bytes(_CREDIT_BYTES, "little"))
                process.stdin.flush()


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


def _read(pipe, ring):
    """Reads an item that `_write` has written; returns it and how many bytes of the ring it takes."""
    pickled, taken, places = pickle.load(pipe)
    if taken is None:  # too large for the ring: the places are sizes
        buffers = [np.empty(size, np.uint8) for size in places]
        for buffer in buffers:
            if pipe.readinto(buffer) < len(buffer):
                raise EOFError
    else:
        buffers = ring.read(places)
    return pickle.loads(pickled, buffers=buffers), taken


def _write(item, pipe, ring):
    """Writes the arrays of `item` to the ring, and the rest to the pipe. The item may be changed afterwards."""
    views = []
    pickled = pickle.dumps(item, protocol=5, buffer_callback=lambda buffer: views.append(buffer.raw()))
    written = ring.write(views)
    pickle.dump((pickled, *(written or (None, [view.nbytes for view in views]))), pipe)
    if not written:
        for view in views:
            pipe.write(view)
    pipe.flush()


def _main():
    sys.path[:] = pickle.load(sys.stdin.buffer)
    writing, memory = map(int, sys.argv[1:])
    ring = shared_ring.Ring(memory)
    with contextlib.suppress(BrokenPipeError), open(writing, "wb") as pipe:  # the parent has ended
        for item in _yielded(sys.stdin.buffer, ring):
            _write(item, pipe, ring)


def _yielded(file, ring):
    """Yields what the function in `file` yields and, at the end, raises what it raised."""
    try:
        function = pickle.load(file)
        threading.Thread(target=_follow_parent, args=[ring], daemon=True).start()
        yield from function()
        yield _End()
    except Exception as error:
        yield _Raised(_sendable(error), traceback.format_exc())


def _follow_parent(ring):
    """Releases what the parent has read, and ends this process with the parent."""
    while credit := os.read(sys.stdin.fileno(), _CREDIT_BYTES):
        ring.release(int.from_bytes(credit, "little"))
    os._exit(1)


def _sendable(error):
    """Returns `error`, or if it cannot be pickled, a RuntimeError with its type and message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # a user's class may raise anything when pickled
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
