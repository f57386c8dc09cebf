"""Makes SIGTERM interrupt a script as Ctrl-C does, so that a training saves the steps done before the process ends."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM has arrived."""


class Interruption:
    """Raises `Terminated` in the main thread at SIGTERM, or waits for whoever defers it."""

    def __init__(self) -> None:
        self.is_due = False  # whether SIGTERM has arrived while `deferred`
        self._is_deferred = False

    def handle_sigterm(self) -> None:
        """Handles SIGTERM from now on, unless the process ignores it or has a handler of its own."""
        # As the first process of a container, one without a handler would ignore it.
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._handle)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Lets SIGTERM only set `is_due` in the block, which must look at it."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # some senders signal both the process and its group
        self.is_due = True
        if not self._is_deferred:
            raise Terminated


interruption = Interruption()  # signals belong to the process
