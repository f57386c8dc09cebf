"""CallLimits: how many steps of a training one call may run, for both kinds of model."""

import math
from collections.abc import Iterator

import tensorflow as tf

from estimator_train._engine.hooks import EpochHook, count_steps, next_look, see_each_step, watches_loss
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.types import Hooks

# How long a call lasts by default: far longer than what it costs, and short for whoever presses Ctrl-C. A call costs a
# CPU about 1 ms; a GPU has nothing to do between two calls.
_SECONDS, _SECONDS_BESIDE_GPU = 0.2, 0.8
LONG, _MANY = 1e9, 10**9


class CallLimits:
    """How many steps each call of a training may run, so that it ends at the next step that a hook needs to see.

    Args:
      config: the RunConfig.
      hooks: those that the training has besides the ones that `config` asks for.
      last_step: the global step at which training ends, if known.
      loss: the loss that ends a call if it is NaN, or its name.
      are_agreed: whether several workers agree on the number of steps before each call.
    """

    def __init__(
        self,
        config: RunConfig,
        hooks: Hooks,
        last_step: int | None,
        loss: tf.Tensor | str | None = None,
        are_agreed: bool = False,
    ) -> None:
        self._config = config
        self._hooks = [hook for hook in hooks if loss is None or not watches_loss(hook, loss)]
        self._epoch_hooks = [hook for hook in hooks if isinstance(hook, EpochHook)]
        self._last_step = last_step
        self._are_agreed = are_agreed
        self._first_step: int | None = None
        self._step_seconds = 0.0  # a step's in the last call
        self._call_seconds = _SECONDS
        if tf.config.get_visible_devices("GPU"):
            self._call_seconds = _SECONDS_BESIDE_GPU

    @property
    def are_single(self) -> bool:
        """Whether each call will make one step, without other workers, which may have other limits."""
        at_once = self._config.steps_per_loop
        return not self._are_agreed and (at_once == 1 or (at_once == "auto" and see_each_step(self._hooks)))

    def next(self, step: int) -> tuple[int, float]:
        """Returns how many steps may follow global step `step`, and the seconds after which one that begins is last."""
        if self._first_step is None:
            self._first_step = step
        at_once, seconds = self._config.steps_per_loop, LONG
        counts: list[float] = [
            every - (step - first) % every for every, first in self._grids(self._first_step) if every
        ]
        if at_once != "auto":
            counts.append(at_once)
        elif step == self._first_step or self._are_agreed:  # hooks time it apart; workers would have to agree on time
            counts.append(1)
        else:
            counts.append(next_look(self._hooks, step) - step)
        if self._last_step is not None:
            counts.append(self._last_step - step)
        if at_once == "auto":  # soon enough for Ctrl-C
            seconds = max(self._call_seconds - self._step_seconds, 0)
        return math.ceil(min(*counts, _MANY)), seconds

    def left(self, step: int) -> float:
        """Returns how many steps may follow global step `step` until the end of training, as far as it is known."""
        if self._config.steps_per_loop != "auto":
            return math.inf  # a number is followed whatever it costs
        return math.inf if self._last_step is None else self._last_step - step

    def took(self, steps: int, seconds: float) -> None:
        """Notes that a call has run so many steps in so many seconds."""
        self._step_seconds = seconds / steps
        if self._config.steps_per_loop == "auto":
            count_steps(self._hooks, steps)

    def _grids(self, first_step: int) -> Iterator[tuple[int | None, int]]:
        """Yields pairs (every, first): a call ends at the step `first` and every so many steps after it, if at all."""
        yield from ((hook.steps_per_epoch, hook.first_step) for hook in self._epoch_hooks)
        yield from ((every, 0) for every in self._config._checkpoint_steps)
        # With a number of steps and callbacks, calls are those of fit with steps_per_execution.
        if self._config.steps_per_loop == "auto" or not self._epoch_hooks:
            summaries, lines = self._config.save_summary_steps, self._config.log_step_count_steps
            yield int(summaries or 0), first_step  # SummarySaverHook requests the summaries of a step before it
            yield int(summaries or 0), first_step + 1
            yield int(lines or 0), first_step + 1


class EvaluationLimits:
    """The same for an evaluation of `steps` batches, whose progress is logged a tenth at a time."""

    def __init__(self, steps: int | None, hooks: Hooks, is_single: bool) -> None:
        self.are_single = is_single or see_each_step(hooks) or next_look(hooks, 0) < math.inf
        self._steps = steps
        self._step_seconds = 0.0

    def next(self, step: int) -> tuple[int, float]:
        seconds = max(_SECONDS - self._step_seconds, 0)
        if self._steps is None:
            return _MANY, seconds
        every = max(1, self._steps // 10)
        return min(every - step % every, self._steps - step), seconds

    def left(self, step: int) -> float:
        return math.inf if self._steps is None else self._steps - step

    def took(self, steps: int, seconds: float) -> None:
        self._step_seconds = seconds / steps
