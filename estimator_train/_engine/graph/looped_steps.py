"""LoopedSteps: a session's steps of a model_fn's graph, many in one call where this gives what single steps give."""

import functools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import tensorflow as tf

from estimator_train._engine.call_limits import LONG
from estimator_train._engine.graph import loopable
from estimator_train._engine.graph.loopable import DRAWS, READ, step_ops
from estimator_train._engine.graph.step_loop import StepLoop
from estimator_train._engine.hooks import is_overridden
from estimator_train._engine.libraries import MissingNameError
from estimator_train._engine.session import private_tensorflow, step_outputs
from estimator_train._engine.session.fetches import MadeOfFetches, map_fetches
from estimator_train._engine.types import Hooks, SessionRunHook

v1 = tf.compat.v1
log = tf.get_logger()

# A loop saves a few tenths of a millisecond a step. A step that takes longer than this, in seconds, is not worth a copy
# of its graph.
_LONG_STEP = 0.01
# TensorFlow takes about as many seconds to prepare a loop, so single steps come first until they have taken as many: a
# training or an evaluation that ends before saves the loop. Random numbers must come from it from the beginning, or
# never, so only a training that is known to end within so many steps does without it.
_LOOP_SECONDS = 0.2
_FEW_STEPS = 500

# In steps shorter than this, in seconds, the ops run one after the other in the thread that calls: to hand them to the
# threads of a pool takes longer than these save. On two cores, the steps of a linear model and of a DNN took 30 %
# longer in TensorFlow's usual pool, and in one of a single thread, which waits for the iterator's in each step.
_SHORT_STEP = 0.001
_CALLER = -1  # in place of the number of a pool

Runs = Callable[..., Any]  # `tf.compat.v1.Session.run`


class Limits(Protocol):
    """How many steps a call may run: `CallLimits`, or `EvaluationLimits`."""

    @property
    def are_single(self) -> bool: ...

    def next(self, step: int) -> tuple[int, float]: ...

    def left(self, step: int) -> float: ...

    def took(self, steps: int, seconds: float) -> None: ...


class LoopedSteps:
    """The steps of a graph, which is the default; a step is a call that fetches all of `step`.

    Args:
      step: the ops or tensors of a step.
      loss: its loss, which ends a call if it is NaN, or None.
      global_step: the variable that the steps count in, or None if they count batches.
      limits: how many steps a call may run.
      hooks: the user's and the model_fn's.
      session_config: of the sessions that run them; what it says of threads holds.
    """

    def __init__(
        self,
        step: Sequence[tf.Operation | tf.Tensor],
        loss: tf.Tensor | None,
        global_step: tf.Variable | None,
        limits: Limits,
        hooks: Hooks,
        session_config: tf.compat.v1.ConfigProto,
    ) -> None:
        self._graph = v1.get_default_graph()
        self._step, self._loss, self._global_step = list(step), loss, global_step
        self._limits = limits
        self._steps_output = step_outputs.find(self._graph, step_outputs.STEPS)
        self._loop: StepLoop | None = None
        self._whys: dict[Any, str | None] = {}  # of what has been fetched so far: why a loop cannot give it
        self._ops = step_ops([*step, loss] if loss is not None else step)
        self._draws = {op for op in self._ops if op.type in DRAWS}
        self._refusal = self._reason_for_single_steps(hooks)
        self._elements_of = MadeOfFetches(self._all_elements)
        self._has_own_threads = _says_which_threads(session_config)
        self._suit_caller: dict[tf.Operation, bool] = {}  # of the ops that have been fetched so far
        self._count: int | None = None
        self._fastest = self._latest = math.inf  # seconds of a step
        self._singles = 0  # steps that have run alone
        self._log_refusal()

    def start(self, has_run_steps: bool = False) -> None:
        """Called with each new session; `has_run_steps`: whether a step of it may have run."""
        self._count = None if self._global_step is not None else 0
        if has_run_steps and self._draws:
            self._refuse("the Scaffold's init_fn may have drawn random numbers")

    def run(
        self,
        run: Runs,
        fetches: Any,
        feed_dict: dict[Any, Any] | None = None,
        options: tf.compat.v1.RunOptions | None = None,
        run_metadata: tf.compat.v1.RunMetadata | None = None,
    ) -> Any:
        """Like `run`, which is that of the session, but a step may be the last one of many."""
        with self._graph.as_default():  # tensors can be dict keys in graph mode only
            elements = self._elements_of(fetches)
            if not all(element in elements for element in self._step):
                if not self._refusal:
                    self._check_draws(elements)
                return run(fetches, feed_dict, options, run_metadata)
            options = self._options(elements, options)
            if not self._refusal:
                return self._run(run, elements, fetches, feed_dict, options, run_metadata)
            begun = time.monotonic()
            values = run(fetches, feed_dict, options, run_metadata)
            self._latest = time.monotonic() - begun
            return values

    def _run(
        self,
        run: Runs,
        elements: dict[Any, None],
        fetches: Any,
        feed_dict: dict[Any, Any] | None,
        options: tf.compat.v1.RunOptions | None,
        run_metadata: tf.compat.v1.RunMetadata | None,
    ) -> Any:
        if self._count is None:
            self._count = int(run(self._global_step))
            if self._draws and self._loop is None and self._limits.left(self._count) < _FEW_STEPS:
                self._refuse(f"it ends within {_FEW_STEPS} steps")
                return run(fetches, feed_dict, options, run_metadata)
        count, seconds = self._limits.next(self._count)
        begun = time.monotonic()
        if not self._is_loop_worthwhile(count, seconds) or not self._can_loop(elements, feed_dict):
            values = run(fetches, feed_dict, options, run_metadata)
            self._singles += 1
            self._took(1, time.monotonic() - begun)
            return values
        if self._loop is None:
            self._loop = StepLoop(self._step, self._loss)
        loop = self._loop
        outputs = loop.fetches(element for element in elements if element is not self._steps_output)
        outputs[self._steps_output] = loop.count
        looped = map_fetches(lambda fetch: self._outputs_of(fetch, outputs), fetches)
        if count > 1:
            # ReportAllocationsHook's option, for the large graphs of long steps, would double the time of short ones.
            options = _copy_of(options)
            options.report_tensor_allocations_upon_oom = False
        done, values = run([loop.count, looped], {loop.limit: count, loop.seconds: seconds}, options, run_metadata)
        if not done:
            if loopable.changes_without_data(self._ops):  # as it does once more in single steps
                return run(fetches, feed_dict, options, run_metadata)
            raise tf.errors.OutOfRangeError(None, None, "The input_fn's data has ended.")
        self._took(int(done), time.monotonic() - begun)
        return values

    def _options(
        self, elements: Iterable[Any], given: tf.compat.v1.RunOptions | None
    ) -> tf.compat.v1.RunOptions | None:
        """Returns the options for a step that fetches `elements`."""
        if self._latest >= _SHORT_STEP or not self._step_suits_caller:
            return given
        for op in {getattr(element, "op", element) for element in elements}:
            if op not in self._suit_caller:
                self._suit_caller[op] = loopable.suit_one_thread(step_ops([op]) - self._ops)
            if not self._suit_caller[op]:
                return given
        options = _copy_of(given)
        options.inter_op_thread_pool = _CALLER
        return options

    @functools.cached_property
    def _step_suits_caller(self) -> bool:
        if self._has_own_threads or tf.config.get_visible_devices("GPU"):
            return False
        # Reading a batch ends what could nest from one step of a loop to the next.
        return any(op.type == READ for op in self._ops) and loopable.suit_one_thread(self._ops)

    def _took(self, steps: int, seconds: float) -> None:
        self._count = (self._count or 0) + steps
        self._latest = seconds / steps
        self._fastest = min(self._fastest, self._latest)
        self._limits.took(steps, seconds)

    def _is_loop_worthwhile(self, count: int, seconds: float) -> bool:
        if self._draws:
            return True  # also for a single step, because the loop's kernels draw the random numbers
        if count == 1 or seconds == LONG:
            return count > 1
        if self._loop is None and (not self._singles or self._singles * self._fastest < _LOOP_SECONDS):
            return False
        return self._fastest < _LONG_STEP

    def _can_loop(self, elements: dict[Any, None], feed_dict: dict[Any, Any] | None) -> bool:
        whys = ["a hook feeds a value"] if feed_dict else []
        for element in elements:
            if element not in self._whys:
                self._whys[element] = self._why_not(element)
            whys += filter(None, [self._whys[element]])
        if not whys:
            return True
        if self._draws and self._loop is None:
            self._refuse(whys[0])
        elif self._draws:
            log.warning("The random numbers of this step are not those of single steps, because %s.", whys[0])
        return False

    def _why_not(self, element: tf.Operation | tf.Tensor) -> str | None:
        """Returns why a loop cannot give the value of `element`, if it cannot."""
        if getattr(element, "dtype", None) in (tf.resource, tf.variant):
            return f"a hook fetches {element.name}"
        ops = step_ops([element])
        if any(op.type == READ for op in ops - self._ops):
            return "a hook reads another batch"
        return None if ops <= self._ops else loopable.refusal(ops | self._ops)

    def _check_draws(self, elements: dict[Any, None]) -> None:
        """Refuses to loop if random ops of the step run outside of it, with their own kernels."""
        if not self._draws or self._draws.isdisjoint(step_ops(elements)):
            return
        if self._loop is None:
            self._refuse("a hook draws random numbers of the step outside of it")
        else:
            log.warning(
                "A hook runs random ops of a step outside of it; set steps_per_loop=1 to continue their numbers."
            )

    def _all_elements(self, leaves: list[Any]) -> dict[Any, None]:
        return dict.fromkeys(element for leaf in leaves for element in self._elements(leaf))

    def _elements(self, fetch: Any) -> list[Any]:
        if isinstance(fetch, str | tf.Variable) or not tf.is_tensor(fetch):
            return [self._graph.as_graph_element(fetch)]
        return tf.nest.flatten(fetch, expand_composites=True)

    def _outputs_of(self, fetch: Any, outputs: dict[Any, Any]) -> Any:
        found = [outputs[element] for element in self._elements(fetch)]
        if tf.is_tensor(fetch) and not isinstance(fetch, tf.Variable):
            return tf.nest.pack_sequence_as(fetch, found, expand_composites=True)
        return found[0]

    def _reason_for_single_steps(self, hooks: Hooks) -> str | None:
        if self._limits.are_single:
            return "a hook looks at each step, or RunConfig(steps_per_loop=1)"
        if tf.config.get_visible_devices("GPU"):
            return "there is a GPU"
        try:
            why = loopable.refusal(self._ops)
        except MissingNameError as error:  # single steps do without private names
            return str(error)
        if why is None and self._global_step is not None and not loopable.counts_by_one(self._ops, self._global_step):
            why = "its steps do not add one to the global step"
        if why is None and self._draws:
            why = next((f"{type(hook).__name__} may draw at the end" for hook in hooks if _may_draw(hook)), None)
        return why

    def _refuse(self, why: str) -> None:
        self._refusal = why
        self._log_refusal()

    def _log_refusal(self) -> None:
        if self._refusal:
            log.debug("The graph runs single steps: %s.", self._refusal)


def _says_which_threads(config: tf.compat.v1.ConfigProto) -> bool:
    has_pools = config.inter_op_parallelism_threads or config.session_inter_op_thread_pool
    return bool(has_pools or config.use_per_session_threads)


def _copy_of(options: tf.compat.v1.RunOptions | None) -> tf.compat.v1.RunOptions:
    return v1.RunOptions.FromString(options.SerializeToString()) if options is not None else v1.RunOptions()


def _may_draw(hook: SessionRunHook) -> bool:
    """Returns whether a hook may run ops of a step at the end of a training."""
    kind = type(hook)
    if kind is v1.train.LoggingTensorHook:
        return private_tensorflow.logs_at_end(hook)
    known = kind.__module__.startswith("estimator_train.") or kind in _QUIET_AT_END
    return not known and is_overridden(hook, "end", SessionRunHook)


_QUIET_AT_END = (v1.train.CheckpointSaverHook, v1.train.SummarySaverHook)
