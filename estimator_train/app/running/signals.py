"""Saves a last checkpoint and stops training on Ctrl-C, SIGTERM and SIGHUP."""

import contextlib
import math
import os
import signal
import socket
import sys
import threading
import time
from typing import TypeAlias

import tensorflow as tf
import tqdm

from estimator_train._engine.application import FunctionSession, SavingHook, sums_of_workers
from estimator_train.app.running.messages import warn
from estimator_train.app.running.termination import leave_lost_terminal

SessionRunHook: TypeAlias = tf.compat.v1.train.SessionRunHook

_NUMBERS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)  # if workers receive different ones, the last counts
_TWICE_SECS = 2  # a signal to the process and one to its group arrive within this time
_HANGING_SECS = 5  # without a batch, after a signal
_LOOKING_SECS = 0.5


class Stopped(BaseException):
    """Raised after a signal when there is nothing left to save; half an evaluation is worthless.

    A BaseException, so that the `except Exception` of a library that is interrupted lets it pass.
    """


class StopOnSignal(SavingHook):
    """A hook that stops training after the current step if SIGINT, SIGTERM or SIGHUP arrives inside its `with` block.

    Before training begins, there is nothing to save, and the signal raises `Stopped` at once. A second Ctrl-C kills the
    process; so does a second SIGTERM or SIGHUP seconds later, because some senders signal both the process and its
    group. A signal that the process ignored from the start, as nohup does with SIGHUP, stays ignored. After the block,
    SIGTERM and SIGHUP are ignored if a signal was received inside it.

    If a Keras model then gets no batch for seconds, in training or in an evaluation, the step may never end: the steps
    done are saved from another thread, `say_stopped` is called, and the process ends.

    In synchronous training all processes stop, and each raises `Stopped` once the checkpoint is saved. Tasks that wait
    for them to finish, such as an evaluator, thus do not take the training for complete.
    """

    def __init__(self, strategy=None, say_stopped=lambda number: None):
        self._say_stopped = say_stopped
        self._training = self._evaluation = None  # the sessions of the training and of the last evaluation
        self._waiting = None  # for which batch of which session, since when
        self.received = None  # the first signal received, by this process or another
        self._said_at = None
        self._sums = sums_of_workers(strategy)
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

    @contextlib.contextmanager
    def ending_together(self):
        """Lets workers wait for the chief's work in the block; TensorFlow calls one crashed that ends 10 s earlier."""
        try:
            yield
        finally:
            if self._sums is not None:
                self._sums(0)

    def check(self):
        """Raises `Stopped` if a signal was received."""
        if self.received:
            raise Stopped

    def begin(self):
        self._waits_for_step = True

    def after_create_session(self, session, coord):
        self._training = session

    def watch_evaluation(self, session):
        """Ends the process after a signal if the input of an evaluation hangs."""
        self._evaluation = session

    def next_look(self, global_step):
        return math.inf  # a call is short enough for whoever waits

    def after_run(self, run_context, run_values):
        if self.received:
            run_context.request_stop()  # checkpoint hooks save at the end of the session
            if isinstance(self._training, FunctionSession):
                self._training.is_interrupted = True

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
            while True:
                try:
                    number = reader.recv(1)
                except TimeoutError:
                    self._end_if_input_hangs()
                    continue
                if not number:
                    return
                if number[0] in self._handlers:  # the program may handle others
                    self._note(signal.Signals(number[0]))
                    reader.settimeout(_LOOKING_SECS)

    def _note(self, number):
        leave_lost_terminal()
        if self._said_at is None:
            self.received, self._said_at = self.received or number, time.monotonic()
            with tqdm.tqdm.external_write_mode():  # hides the progress bar meanwhile
                warn(f"{number.name}: stopping; Ctrl-C now stops at once")
        elif number == signal.SIGINT or time.monotonic() - self._said_at > _TWICE_SECS:
            os._exit(128 + number)

    def _end_if_input_hangs(self):
        sessions = [each for each in (self._training, self._evaluation) if isinstance(each, FunctionSession)]
        idle = [(each, each.batches_if_idle()) for each in sessions if each.batches_if_idle() is not None]
        if self._waiting is None or self._waiting[0] != idle:
            self._waiting = idle, time.monotonic()
        elif idle and time.monotonic() - self._waiting[1] > _HANGING_SECS:
            ((session, batch),) = idle
            if session is self._evaluation:  # the training is saved
                self._leave()
            with session.steps_done():
                try:
                    self.save(session)
                except (OSError, tf.errors.OpError) as error:
                    warn(f"the last steps could not be saved: {str(error).splitlines()[0]}")
                if session.batches_if_idle() == batch:
                    self._leave()

    def _leave(self):
        with tqdm.tqdm.external_write_mode():
            self._say_stopped(self.received)
        sys.stdout.flush()
        os._exit(128 + self.received)


class StopEvaluation(SessionRunHook):
    """A hook that makes an evaluation raise `Stopped` once `stop`, a `StopOnSignal`, has received a signal."""

    def __init__(self, stop):
        self._stop = stop

    def after_create_session(self, session, coord):
        self._stop.watch_evaluation(session)

    def before_run(self, run_context):
        self._stop.check()
