"""StepRunner: runs the steps of one train, evaluate or predict call of a Keras model."""

import contextlib
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimator_train._engine.cluster import synchronous
from estimator_train._engine.distribution.replica_input import log_batch
from estimator_train._engine.hooks import EpochHook, next_look, see_each_step
from estimator_train._engine.host import dataset_iterators
from estimator_train._engine.keras.loop import kind_of_loop
from estimator_train._engine.keras.model_state import BUILDING
from estimator_train._engine.keras.step_programs import StepProgram
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session import step_outputs, tracebacks
from estimator_train._engine.types import Hooks, Nest

# How long a call lasts by default: far longer than what it costs, and short for whoever presses Ctrl-C. A call costs a
# CPU about 1 ms; a GPU has nothing to do between two calls.
_SECONDS, _SECONDS_BESIDE_GPU = 0.2, 0.8
_LONG, _MANY = 1e9, 10**9


class StepRunner:
    """Runs the steps of one run for a FunctionSession; each call runs the next steps and returns their values."""

    def __init__(
        self,
        state: Any,
        program: StepProgram,
        make_dataset: Callable[[], tf.distribute.DistributedDataset],  # starting at the state's position
        config: RunConfig,
        restored: contextlib.AbstractContextManager[None],  # `ModelState.restored` for the run's checkpoint
        last_step: int | None,  # the global step at which training ends
        hooks: Hooks = (),
    ) -> None:
        """Traces the steps of `program` for a `ModelState`, without running them."""
        self._state = state
        self._program = program
        self._trains = program.trains
        self._make_dataset = make_dataset
        self._config = config
        self._last_step = last_step
        self._hooks = hooks
        self._epoch_hooks = [hook for hook in hooks if isinstance(hook, EpochHook)]
        self.agreement = None  # for training in several processes
        if self._trains and synchronous.spans_workers(state.strategy):
            self.agreement = synchronous.Agreement(config)
        self._sessions = 0
        self._is_called = False
        self._step_seconds = 0.0  # a step's in the last call
        self._call_seconds = _SECONDS
        if tf.config.get_visible_devices("GPU"):
            self._call_seconds = _SECONDS_BESIDE_GPU
        self.returning = threading.Lock()  # a call takes it before it returns, so that another thread can save
        with restored:
            self._trace()
        self.global_step = self._first_step = int(state.global_step.numpy())
        state.check_variables(self._loop.variables)

    def _trace(self) -> None:
        self._iterators = [iter(self._make_dataset())]  # only the current one
        # It deletes the iterator. Whoever does not close the run leaves that to the garbage collector.
        self.close = weakref.finalize(self, dataset_iterators.delete_in_background, self._iterators)
        self.close.atexit = False
        self._kind_of_loop = kind_of_loop(self._program, self._iterators[0], self._makes_single_steps())
        self._loop = self._state.loop(self._program, self._kind_of_loop)
        try:
            with BUILDING:
                self.value_specs, self._call = self._loop.trace(self._iterators[0])
        except Exception as error:
            raise tracebacks.shortened(error) from error.__cause__

    def _makes_single_steps(self) -> bool:
        """Returns whether each call will make one step, without other workers, with whom `SingleSteps` cannot agree."""
        if not self._trains:
            return True
        at_once = self._config.steps_per_loop
        return not self.agreement and (at_once == 1 or (at_once == "auto" and see_each_step(self._hooks)))

    @property
    def batch_structure(self) -> Nest:
        """The structure of the program's batch outputs, whose tensors are values of each step."""
        return self._loop.batch_structure

    def start(self) -> None:
        """Starts a new session; every session after the first one recovers from an error at the newest checkpoint."""
        self._sessions += 1
        self._loop.reset()
        if self._sessions > 1:
            if self._trains:
                self._state.restart()
            dataset_iterators.delete_in_background(self._iterators)
            self._iterators.append(iter(self._make_dataset()))
            self.global_step = int(self._state.global_step.numpy())

    def __call__(self) -> dict[str, tf.Tensor]:
        if self._trains:
            self._state.begin_steps()
        loop = self._state.loop(self._program, self._kind_of_loop)
        if self._loop is not loop:
            self._loop = loop
            _, self._call = loop.trace(self._iterators[0])
        wishes = self.agreement.wishes() if self.agreement else ()
        step, begun = self.global_step, time.monotonic()
        try:
            self._is_called = True
            with synchronous.explaining_lost_worker(self._state.strategy):
                values = self._call(self._iterators[0], *self._limits(), wishes)
        except KeyboardInterrupt:  # Python raises it once the steps are done
            self.count_steps_done()
            raise
        finally:
            self._is_called = False
            with self.returning:
                pass
        if self.agreement is not None and values[step_outputs.SAVES]:
            self.agreement.save()
        if self._trains:
            if step == self._first_step:
                examples = int(values[step_outputs.EXAMPLES]) // int(values[step_outputs.STEPS])
                log_batch(f"{examples} examples", self._state.strategy.num_replicas_in_sync)
            self.global_step = step + int(values[step_outputs.STEPS])
            self._step_seconds = (time.monotonic() - begun) / (self.global_step - step)
        return values

    def batches_if_idle(self) -> int | None:
        return self._loop.batches_if_idle() if self._is_called else None

    def count_steps_done(self) -> None:
        self.global_step = int(self._state.global_step.numpy())

    def _limits(self) -> tuple[int, float]:
        """Returns how many steps the next call may run, and the seconds after which a step that begins is its last."""
        if not self._trains:
            return 1, _LONG
        step, at_once, seconds = self.global_step, self._config.steps_per_loop, _LONG
        counts: list[float] = [every - (step - first) % every for every, first in self._grids() if every]
        if at_once != "auto":
            counts.append(at_once)
        elif step == self._first_step or self.agreement:  # hooks time it apart; workers would have to agree on the time
            counts.append(1)
        else:
            counts.append(next_look(self._hooks, step) - step)
        if self._last_step is not None:
            counts.append(self._last_step - step)
        if self._loop.takes_one_step:
            counts.append(1)
        if at_once == "auto":  # soon enough for Ctrl-C
            seconds = max(self._call_seconds - self._step_seconds, 0)
        return math.ceil(min(*counts, _MANY)), seconds

    def _grids(self) -> Iterator[tuple[int | None, int]]:
        """Yields pairs (every, first): a call ends at the step `first` and every so many steps after it, if at all."""
        yield from ((hook.steps_per_epoch, hook.first_step) for hook in self._epoch_hooks)
        yield from ((every, 0) for every in self._config._checkpoint_steps)
        # With a number of steps and callbacks, calls are those of fit with steps_per_execution.
        if self._config.steps_per_loop == "auto" or not self._epoch_hooks:
            summaries, lines = self._config.save_summary_steps, self._config.log_step_count_steps
            yield int(summaries or 0), self._first_step  # SummarySaverHook requests the summaries of a step before it
            yield int(summaries or 0), self._first_step + 1
            yield int(lines or 0), self._first_step + 1
