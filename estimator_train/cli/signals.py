"""Saves a last checkpoint and stops training on Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import click
import tensorflow as tf
import tqdm

from estimator_train.cli.termination import leave_lost_terminal
from estimator_train.distribution import synchronous

SessionRunHook = tf.compat.v1.train.SessionRunHook

_NUMBERS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)  # if workers receive different ones, the last counts
_TWICE_SECS = 2  # a signal to the process and one to its group arrive within this time


class Stopped(Exception):
    """Raised after a signal when there is nothing left to save; half an evaluation is worthless."""


class StopOnSignal(SessionRunHook):
    """A hook that stops training after the current step if SIGINT, SIGTERM or SIGHUP arrives inside its `with` block.

    Before training begins, while a model is copied or features are cached, the signal raises `Stopped` immediately,
    because there is nothing to save. A second Ctrl-C kills the process immediately. A second SIGTERM or SIGHUP does so
    if it comes seconds later, because some senders signal both the process and its group. A signal that the process
    ignored from the start, as nohup does with SIGHUP, stays ignored. After the block, SIGTERM and SIGHUP are ignored if
    a signal was received inside it.

    In synchronous training all processes stop, and each raises `Stopped` once the checkpoint is saved. Tasks that wait
    for them to finish, such as an evaluator, thus do not take the training for complete.
    """

    def __init__(self, strategy=None):
        self.received = None  # the first signal received, by this process or another
        self._is_said = False
        self._sums = synchronous.summing(strategy) if synchronous.spans_workers(strategy) else None
        self._waits_for_step = self._sums is not None  # leaving earlier would make the other workers wait

    def __enter__(self):
        # Python runs handlers only after the current TensorFlow call returns, which may be waiting for data. A thread
        # notices the signal immediately.
        reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._watcher = threading.Thread(target=self._watch, args=(reader,), daemon=True)
        self._watcher.start()
        self._wakeup_fd = signal.set_wakeup_fd(self._writer.fileno())
        ignored = [number for number in _NUMBERS if signal.getsignal(number) is signal.SIG_IGN]
        self._handlers = {number: signal.signal(number, self._handle) for number in _NUMBERS if number not in ignored}
        return self

    def __exit__(self, *exc_info):
        for number, handler in self._handlers.items():
            # A second SIGTERM may come this late; only Ctrl-C still means to stop at once.
            is_over = self.received and number != signal.SIGINT
            signal.signal(number, signal.SIG_IGN if is_over else handler)
        signal.set_wakeup_fd(self._wakeup_fd)
        self._writer.close()
        self._watcher.join()

    def check(self):
        """Raises `Stopped` if a signal was received."""
        if self.received:
            raise Stopped

    def begin(self):
        self._waits_for_step = True

    def after_run(self, run_context, run_values):
        if self.received:
            run_context.request_stop()  # checkpoint hooks save at the end of the session

    def end(self, session):
        if self._sums is None:
            return
        counts = self._sums(*(self.received == number for number in _NUMBERS))
        came = [number for number, count in zip(_NUMBERS, counts, strict=True) if count]
        if came:
            self.received = came[-1]
            raise Stopped

    def _handle(self, number, frame):
        if not self._waits_for_step:
            self.received = self.received or signal.Signals(number)  # the watcher may not have run yet
            raise Stopped

    def _watch(self, reader):
        with reader:
            while number := reader.recv(1):
                self._note(signal.Signals(number[0]))

    def _note(self, number):
        leave_lost_terminal()
        if not self._is_said and number in self._handlers:
            self._is_said, self.received, self._said_at = True, self.received or number, time.monotonic()
            with tqdm.tqdm.external_write_mode():  # hides the progress bar meanwhile
                click.echo(f"estimator_train: {number.name}: stopping; Ctrl-C now stops at once", err=True)
        elif number == signal.SIGINT or time.monotonic() - self._said_at > _TWICE_SECS:
            os._exit(128 + number)


class StopEvaluation(SessionRunHook):
    """A hook that makes an evaluation raise `Stopped` once `stop`, a `StopOnSignal`, has received a signal."""

    def __init__(self, stop):
        self._stop = stop

    def before_run(self, run_context):
        self._stop.check()


class StopAfterTraining(SessionRunHook):
    """A hook that raises `Stopped` at the end of training if `stop`, a `StopOnSignal`, has received a signal."""

    def __init__(self, stop):
        self._stop = stop

    def end(self, session):
        self._stop.check()
