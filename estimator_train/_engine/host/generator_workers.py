"""Runs Python generators in worker processes, which start quickly because this module does not import TensorFlow."""

import contextlib
import dataclasses
import io
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import cloudpickle
import numpy as np

from estimator_train._engine.host import shared_ring

_ROOT = str(Path(__file__).resolve().parents[3])
_CREDIT_BYTES = 8


@contextlib.contextmanager
def in_workers(functions: Sequence[Callable[[], Iterable[Any]]]) -> Iterator[list[Iterator[Any]]]:
    """Runs each of `functions` in its own process and returns iterators over what they yield.

    An item's arrays may lie in memory that is used again once the next item is taken from the iterator. The processes
    end with the context. The iterators raise the errors that the functions raise, and RuntimeError if a process ends
    before its function does.
    """
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_worker()) for _ in functions]
        for (_, stdin, *_), function in zip(workers, functions, strict=True):
            with contextlib.suppress(BrokenPipeError):  # it has ended, which reading from it reports
                pickle.dump(sys.path, stdin)
                cloudpickle.dump(function, stdin)
                stdin.flush()
        yield [_received(*worker) for worker in workers]


@contextlib.contextmanager
def _worker() -> Iterator[tuple[subprocess.Popen[bytes], BinaryIO, io.BufferedReader, shared_ring.Ring]]:
    """Starts a process that waits for its function; yields it, its input, the pipe for items, and the ring."""
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe, shared_ring.create() as memory:
        descriptors = [writing, memory]
        try:
            # New processes of `multiprocessing` would run the main script again, unless everything in it is below
            # `if __name__ == "__main__"`, and it cannot pickle lambdas and functions of a script.
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
        stdin = cast(BinaryIO, process.stdin)
        try:
            yield process, stdin, pipe, shared_ring.Ring(memory)
        finally:
            process.kill()
            process.wait()
            with contextlib.suppress(BrokenPipeError):  # of a release that it has not read
                stdin.close()


def _received(
    process: subprocess.Popen[bytes], stdin: BinaryIO, pipe: io.BufferedReader, ring: shared_ring.Ring
) -> Iterator[Any]:
    while True:
        try:
            item, taken = _read(pipe, ring)
        except EOFError:
            code = process.wait()
            end = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code} before its data did"
            raise RuntimeError(f"a worker process of the generator {end}") from None
        if isinstance(item, _End):
            if item.error is None:
                return
            raise item.error from _InWorker(item.traceback)
        yield item
        if taken:
            with contextlib.suppress(BrokenPipeError):  # it has sent its last item and ended
                stdin.write(taken.to_bytes(_CREDIT_BYTES, "little"))
                stdin.flush()


@dataclasses.dataclass(frozen=True)
class _End:
    """The last item that a worker sends, once its function has ended or raised an error."""

    error: Exception | None = None
    traceback: str = ""


class _InWorker(Exception):
    """The cause of an error that a worker has sent; shows the traceback in the worker."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _read(pipe: io.BufferedReader, ring: shared_ring.Ring) -> tuple[Any, int | None]:
    """Reads an item that `_write` has written; returns it and how many bytes of the ring it takes."""
    pickled, taken, places = pickle.load(pipe)
    if taken is not None:
        return pickle.loads(pickled, buffers=ring.read(places)), taken
    buffers = [np.empty(size, np.uint8) for size in places]  # too large for the ring: the places are sizes
    for buffer in buffers:
        if pipe.readinto(buffer.data) < len(buffer):
            raise EOFError
    return pickle.loads(pickled, buffers=buffers), None


def _write(item: Any, pipe: BinaryIO, ring: shared_ring.Ring) -> None:
    """Writes the arrays of `item` to the ring, and the rest to the pipe. The item may be changed afterwards."""
    views = []
    pickled = pickle.dumps(item, protocol=5, buffer_callback=lambda buffer: views.append(buffer.raw()))
    sizes = [view.nbytes for view in views]
    written = ring.write(views)
    pickle.dump((pickled, *(written or (None, sizes))), pipe)
    if not written:
        for view in views:
            pipe.write(view)
    pipe.flush()


def _main() -> None:
    sys.path[:] = pickle.load(sys.stdin.buffer)
    writing, memory = map(int, sys.argv[1:])
    ring = shared_ring.Ring(memory)
    with contextlib.suppress(BrokenPipeError), open(writing, "wb") as pipe:  # the parent has ended
        for item in _yielded(sys.stdin.buffer, ring):
            _write(item, pipe, ring)


def _yielded(file: BinaryIO, ring: shared_ring.Ring) -> Iterator[Any]:
    """Yields what the function in `file` yields and, at the end, raises what it raised."""
    try:
        function = pickle.load(file)
        threading.Thread(target=_follow_parent, args=[ring], daemon=True).start()
        yield from function()
        yield _End()
    except Exception as error:
        yield _End(_sendable(error), traceback.format_exc())


def _follow_parent(ring: shared_ring.Ring) -> None:
    """Releases what the parent has read, and ends this process with the parent."""
    while credit := os.read(sys.stdin.fileno(), _CREDIT_BYTES):
        ring.release(int.from_bytes(credit, "little"))
    os._exit(1)


def _sendable(error: Exception) -> Exception:
    """Returns `error`, or if it cannot be pickled, a RuntimeError with its type and message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # a user's class may raise anything when pickled
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
