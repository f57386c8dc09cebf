"""StepTimer: TensorFlow's SecondOrStepTimer on a clock that nobody sets."""

import math
import time

import tensorflow as tf


class StepTimer(tf.compat.v1.train.SecondOrStepTimer):
    """A SecondOrStepTimer on time.monotonic; TensorFlow's waits an hour longer if the clock is set back by one."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        self._secs, self._steps = every_secs, every_steps
        super().__init__(every_secs=every_secs, every_steps=every_steps)

    def reset(self) -> None:
        super().reset()
        self._step: int | None = None
        self._seconds = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        if self._step is None:
            return True
        if step == self._step:
            return False
        if self._secs is not None:
            return time.monotonic() >= self._seconds + self._secs
        return self._steps is not None and step >= self._step + self._steps

    def next_look(self, global_step: int) -> float:
        """Returns the first step after `global_step` at which it may trigger; a time of its own needs no step."""
        if self._step is None:
            return global_step + 1
        return math.inf if self._steps is None else max(self._step + self._steps, global_step + 1)

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        now, before = time.monotonic(), self._step
        seconds = self._seconds
        self._step, self._seconds = step, now
        return (None, None) if before is None else (now - seconds, step - before)

    def last_triggered_step(self) -> int | None:
        return self._step


class GridTimer(StepTimer):
    """Triggers at the multiples of each of `numbers`, or right after those that a loop of several steps passes.

    TensorFlow counts from the step at which a training resumes instead: 35 and 51 for every 16.
    """

    def __init__(self, *numbers: int) -> None:
        super().__init__(every_steps=min(numbers))
        self._numbers = numbers

    def should_trigger_for_step(self, step: int) -> bool:
        before = self._step
        return before is None or any(step // number > before // number for number in self._numbers)

    def next_look(self, global_step: int) -> float:
        before = self._step
        if before is None:
            return global_step + 1
        return max(min((before // number + 1) * number for number in self._numbers), global_step + 1)
