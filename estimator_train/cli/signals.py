"""Ctrl-C and SIGTERM end a training with its last checkpoint saved."""

from __future__ import annotations

import os
import signal
import socket
import threading

import click
import tensorflow as tf
import tqdm

from estimator_train.distribution import synchronous

SessionRunHook = tf.compat.v1.train.SessionRunHook


class Stopped(Exception):
    """A signal has come, and there is nothing more to do; half an evaluation tells nothing."""


class StopOnSignal(SessionRunHook):
    """A hook that ends training at the next step's end where, in its `with` block, SIGINT or SIGTERM has come.

    A second Ctrl-C ends the process at once. A second SIGTERM does not: some that send it do so to a process and to
    its group. In synchronous training all processes stop, and each raises `Stopped` once the checkpoint is saved: for
    what waits for their end, such as an evaluator, they have not come to it.
    """

    def __init__(self, strategy=None):
        self.received = None  # the first signal that has come, here or to another process
        self._sums = synchronous.summing(strategy) if synchronous.spans_workers(strategy) else None

    def __enter__(self):
        # Python calls handlers once TensorFlow's call has returned, which may wait for data. A thread is told at once.
        reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._watcher = threading.Thread(target=self._watch, args=(reader,), daemon=True)
        self._watcher.start()
        self._wakeup_fd = signal.set_wakeup_fd(self._writer.fileno())
        self._handlers = {number: signal.signal(number, _do_nothing) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exc_info):
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_fd)
        self._writer.close()
        self._watcher.join()

    def check(self):
        """Raises `Stopped` where a signal has come."""
        if self.received:
            raise Stopped

    def after_run(self, run_context, run_values):
        if self.received:
            run_context.request_stop()  # hooks that save checkpoints do so at the end of the session

    def end(self, session):
        if self._sums is None:
            return
        interrupted, terminated = self._sums(self.received == signal.SIGINT, self.received == signal.SIGTERM)
        if interrupted or terminated:
            self.received = signal.SIGTERM if terminated else signal.SIGINT
            raise Stopped

    def _watch(self, reader):
        with reader:
            while number := reader.recv(1):
                self._note(signal.Signals(number[0]))

    def _note(self, number):
        if self.received is None and number in (signal.SIGINT, signal.SIGTERM):
            self.received = number
            with tqdm.tqdm.external_write_mode():  # a progress bar makes room
                click.echo(f"estimator_train: {number.name}: stopping; Ctrl-C now stops at once", err=True)
        elif number == signal.SIGINT:
            os._exit(128 + number)


class StopEvaluation(SessionRunHook):
    """A hook that has an evaluation raise `Stopped` once `stop`, a `StopOnSignal`, has had its signal."""

    def __init__(self, stop):
        self._stop = stop

    def before_run(self, run_context):
        self._stop.check()


class StopAfterTraining(SessionRunHook):
    """A hook that has a training raise `Stopped` at its end where `stop`, a `StopOnSignal`, has had its signal."""

    def __init__(self, stop):
        self._stop = stop

    def end(self, session):
        self._stop.check()


def _do_nothing(number, frame):
    pass
