"""StepRunner: runs the steps of one train, evaluate or predict call of a Keras model."""

import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_train._engine.call_limits import LONG, CallLimits
from estimator_train._engine.cluster import synchronous
from estimator_train._engine.distribution.replica_input import log_batch
from estimator_train._engine.host import dataset_iterators
from estimator_train._engine.keras.loop import kind_of_loop
from estimator_train._engine.keras.model_state import BUILDING
from estimator_train._engine.keras.step_programs import StepProgram
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session import step_outputs, tracebacks
from estimator_train._engine.types import Hooks, Nest


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
        self.agreement = None  # for training in several processes
        if self._trains and synchronous.spans_workers(state.strategy):
            self.agreement = synchronous.Agreement(config)
        self._limits = CallLimits(config, hooks, last_step, "loss:0", are_agreed=self.agreement is not None)
        self._sessions = 0
        self._is_called = False
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
        single = not self._trains or self._limits.are_single
        self._kind_of_loop = kind_of_loop(self._program, self._iterators[0], single)
        self._loop = self._state.loop(self._program, self._kind_of_loop)
        try:
            with BUILDING:
                self.value_specs, self._call = self._loop.trace(self._iterators[0])
        except Exception as error:
            raise tracebacks.shortened(error) from error.__cause__

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
                values = self._call(self._iterators[0], *self._next_limits(), wishes)
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
            self._limits.took(self.global_step - step, time.monotonic() - begun)
        return values

    def batches_if_idle(self) -> int | None:
        return self._loop.batches_if_idle() if self._is_called else None

    def count_steps_done(self) -> None:
        self.global_step = int(self._state.global_step.numpy())

    def _next_limits(self) -> tuple[int, float]:
        if not self._trains:
            return 1, LONG
        count, seconds = self._limits.next(self.global_step)
        return 1 if self._loop.takes_one_step else count, seconds
