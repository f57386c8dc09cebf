"""Lets SIGTERM and SIGHUP end a command as Ctrl-C does: with cleanup, one line, and exit code 128 + signal number."""

import contextlib
import os
import signal
import stat

_NUMBERS = (signal.SIGTERM, signal.SIGHUP)


class SignalReceived(BaseException):
    """Raised in the main thread by the signal `number`; a BaseException, so that `except Exception` lets it pass."""

    def __init__(self, number):
        super().__init__(number)
        self.number = signal.Signals(number)


@contextlib.contextmanager
def raising_signals():
    """Makes these signals raise `SignalReceived` in the block, unless they were ignored before, as under nohup."""
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
    # Some senders signal both the process and its group; clean up only once.
    for each in _NUMBERS:
        signal.signal(each, signal.SIG_IGN)
    leave_lost_terminal()
    raise SignalReceived(number)


def leave_lost_terminal():
    """Discards further output to a terminal that has hung up, because writing there would raise an error."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            # A character device that is not, or no longer, a terminal; replacing /dev/null by itself does no harm.
            if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, descriptor)
                os.close(nothing)
