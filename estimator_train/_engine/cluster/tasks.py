"""Runs train_and_evaluate as one task of a TF_CONFIG cluster.

The chief and the workers train, either synchronously with a MultiWorkerMirroredStrategy, or asynchronously, each with
its own graph and with variables on parameter servers. Only the chief writes checkpoints and summaries; the evaluator
evaluates and exports the checkpoints. All tasks share model_dir and end after the chief has ended.
"""

import math
import time
from collections.abc import Callable

import tensorflow as tf

from estimator_train._engine.cluster import synchronous
from estimator_train._engine.cluster.completion import CompletionMarkers
from estimator_train._engine.distribution.addresses import check_address, explaining_bind_errors
from estimator_train._engine.host.cluster_task import TaskType
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.timer import StepTimer
from estimator_train._engine.types import SessionRunContext, SessionRunHook, SessionRunValues

v1 = tf.compat.v1
log = tf.get_logger()

_POLL_SECS = 1.0
_GRACE_SECS = 60.0  # how long parameter servers wait for workers after the chief has ended
_WORKER_DELAY_SECS, _MAX_WORKER_DELAY_SECS = 5, 60  # tf.estimator's: asynchronous training starts staggered


def in_cluster(config: RunConfig) -> bool:
    """Returns whether this is one of several processes."""
    return config.task_type == TaskType.EVALUATOR or config.num_worker_replicas > 1 or config.num_ps_replicas > 0


def run_task(
    config: RunConfig,
    train: Callable[[list[SessionRunHook]], None],
    evaluate: Callable[[bool], bool],
    start_delay_secs: float,
) -> None:
    """Runs this process' task until training has ended.

    `train` takes additional hooks. `evaluate` takes whether training has ended, evaluates the newest checkpoint if that
    is due, and returns whether it was the last one. Raises ValueError if the task is invalid or cannot listen at its
    address, and InterruptedRunError if the chief has failed, and all tasks must be started again.
    """
    markers = CompletionMarkers(config)
    if config.task_type == TaskType.EVALUATOR:
        _evaluate_until_done(config, evaluate, start_delay_secs, markers)
        markers.check_chief()
        return
    is_synchronous = synchronous.spans_workers(config.train_distribute)
    hooks: list[SessionRunHook] = []
    if not is_synchronous:  # otherwise, the strategy has started its own server
        server = _start_server(config)  # it listens as long as the variable lives
        if config.task_type == TaskType.PS:
            _serve_until_done(markers)
            del server
            markers.check_chief()
            return
        if not config.is_chief:
            hooks.append(_StopWithChief(markers))
    markers.clear()
    if not is_synchronous:
        _delay_worker(config)
    with markers.mark_on_exit():
        train(hooks)
        if not config.is_chief:
            markers.check_chief()


def _start_server(config: RunConfig) -> tf.compat.v1.train.Server:
    """Starts the server of this task, which listens on all interfaces until the returned object is deleted."""
    address = config.cluster_spec.task_address(config.task_type, config.task_id)
    check_address(config.task_type, config.task_id, address)
    session_config = v1.ConfigProto()
    if config.session_config is not None:
        session_config.gpu_options.CopyFrom(config.session_config.gpu_options)
    with explaining_bind_errors(config.task_type, config.task_id, address):
        log.info("Starting the server of %s %s at %s.", config.task_type, config.task_id, address)
        return v1.train.Server(
            config.cluster_spec, config.task_type, config.task_id, protocol=config.protocol, config=session_config
        )


def _evaluate_until_done(
    config: RunConfig, evaluate: Callable[[bool], bool], start_delay_secs: float, markers: CompletionMarkers
) -> None:
    if config.task_id > 0:
        raise ValueError(f"TF_CONFIG's task is evaluator {config.task_id}; there can only be one, with index 0.")
    log.info("Waiting %f secs before starting eval.", start_delay_secs)
    time.sleep(start_delay_secs)
    while not evaluate(markers.chief_done()):
        time.sleep(_POLL_SECS)


def _serve_until_done(markers: CompletionMarkers) -> None:
    """Waits for the chief to end, and then up to _GRACE_SECS for the workers."""
    while not markers.chief_done():
        time.sleep(_POLL_SECS)
    log.info("The chief has ended; waiting for the workers.")
    deadline = time.monotonic() + _GRACE_SECS
    while not markers.all_done() and time.monotonic() < deadline:
        time.sleep(_POLL_SECS)


def _delay_worker(config: RunConfig) -> None:
    if config.task_type != TaskType.WORKER:
        return
    longest = config.experimental_max_worker_delay_secs
    if longest is None:
        longest = _MAX_WORKER_DELAY_SECS
    delay = min(longest, (config.task_id + 1) * _WORKER_DELAY_SECS)
    log.info("Waiting %d secs before starting training.", delay)
    time.sleep(delay)


class _StopWithChief(SessionRunHook):
    """Stops a worker soon after the chief, because later steps would not be saved; warns of it before `max_steps`."""

    def __init__(self, markers: CompletionMarkers) -> None:
        self._markers = markers
        self._timer = StepTimer(every_secs=2 * _POLL_SECS)
        self._runs = 0

    def begin(self) -> None:
        self._global_step = v1.train.get_global_step()
        self._last_step = next(iter(v1.get_collection(step_outputs.LAST_STEP)), math.inf)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._runs += 1
        if self._timer.should_trigger_for_step(self._runs):
            self._timer.update_last_triggered_step(self._runs)
            if self._markers.chief_done():
                self._say_why(run_context.session.run(self._global_step))
                run_context.request_stop()

    def _say_why(self, step: int) -> None:
        if step < self._last_step:
            log.warning(
                "The chief has ended, so this worker stops at step %d, after %d of its own: nobody would save later "
                "ones. If the chief's data has ended, repeat it in the input_fn, and set max_steps.",
                step,
                self._runs,
            )
