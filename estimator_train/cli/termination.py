"""SIGTERM and SIGHUP end a command as Ctrl-C does: with what it has open closed, one line, and 128 and the number."""

from __future__ import annotations

import contextlib
import os
import signal
import stat

_NUMBERS = (signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """Raised in the main thread by a signal, whose `number` it has; no handler of ordinary errors catches it."""

    def __init__(self, number):
        super().__init__(number)
        self.number = signal.Signals(number)


@contextlib.contextmanager
def raising_terminated():
    """Raises `Terminated` inside for these signals, unless the process was started to ignore them, as by nohup."""
    handlers = {number: signal.getsignal(number) for number in _NUMBERS}
    for number, handler in handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _raise(number, frame):
    # Some that send a signal send it twice, to a process and to its group; what is open is closed once.
    for each in _NUMBERS:
        signal.signal(each, signal.SIG_IGN)
    leave_lost_terminal()
    raise Terminated(number)


def leave_lost_terminal():
    """Drops what is still to be written to a terminal that has hung up, because writing there would be an error."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            # A device that is no terminal (any more); of those that never were one, /dev/null is not changed by this.
            if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, descriptor)
                os.close(nothing)
