"""The hooks of the Estimator's loops: the hooks of train, in tf.estimator's order, and evaluate's progress hook."""

from collections.abc import Sequence

import tensorflow as tf

from estimator_train._engine.checkpoints import saver_hook
from estimator_train._engine.cluster import synchronous
from estimator_train._engine.events import event_writer
from estimator_train._engine.model_fn import EstimatorSpec, Run
from estimator_train._engine.remedies import UnsuitableError
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session import private_tensorflow, step_outputs
from estimator_train._engine.session.timer import GridTimer, StepTimer
from estimator_train._engine.types import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    Session,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

v1 = tf.compat.v1
log = tf.get_logger()


def training_hooks(
    run: Run,
    config: RunConfig,
    user_hooks: Sequence[SessionRunHook],
    listeners: Sequence[CheckpointSaverListener],
    stop_at: tuple[int | None, int | None],
) -> list[SessionRunHook]:
    """Returns all hooks of a training, in the order in which they are called; needs the run's graph as default.

    `user_hooks`, `listeners` and `stop_at`, which are its `steps` and `max_steps`, are passed to `Estimator.train`.
    Raises ValueError if there are listeners but no checkpoints, or a CheckpointSaverHook is among `user_hooks` and
    several workers train.
    """
    spec = run.spec
    savers = [
        hook
        for hook in (*user_hooks, *spec.training_hooks, *spec.training_chief_hooks)
        if isinstance(hook, v1.train.CheckpointSaverHook)
    ]
    timer = _checkpoint_timer(config, run.agreement)
    if listeners and not savers and not timer:
        raise ValueError(
            "There should be a CheckpointSaverHook to use saving_listeners. "
            "Set save_checkpoints_steps or save_checkpoints_secs in RunConfig."
        )
    hooks = []
    if run.agreement is not None:
        synchronous.check_hooks(user_hooks)
        sums = synchronous.summing(config.train_distribute)
        hooks.append(synchronous.SameStartHook(config.train_distribute, sums))
    if config.is_chief:
        hooks += _chief_hooks(spec, config, savers, listeners, timer)
    elif run.agreement is not None and timer:
        hooks.append(saver_hook.DiscardingSaverHook(timer, spec.scaffold))
    hooks += [*run.input_hooks, *user_hooks]
    if any(stop_at):
        hooks.append(v1.train.StopAtStepHook(*stop_at))
    hooks.append(v1.train.NanTensorHook(spec.loss))
    if config.log_step_count_steps:
        hooks.append(LogLossHook(spec.loss, config.log_step_count_steps))
    hooks += spec.training_hooks
    hooks.append(StopIfAlreadyDone(hooks))
    if run.agreement is not None:
        hooks.append(synchronous.StopTogetherHook(run.agreement, spec.train_op, sums))
    return hooks


def _checkpoint_timer(config: RunConfig, agreement: synchronous.Agreement | None) -> StepTimer | None:
    """Returns the timer that triggers checkpoints, or None if none are saved."""
    if config._checkpoint_steps:
        return GridTimer(*config._checkpoint_steps)
    if not config.save_checkpoints_secs:
        return None
    if agreement is not None:
        return agreement.timer
    return StepTimer(every_secs=config.save_checkpoints_secs)


def _chief_hooks(
    spec: EstimatorSpec,
    config: RunConfig,
    savers: list[CheckpointSaverHook],
    listeners: Sequence[CheckpointSaverListener],
    timer: StepTimer | None,
) -> list[SessionRunHook]:
    """Returns the chief's hooks, which save checkpoints and write events; `savers` are hooks that save already."""
    if "loss" not in [summary.op.name for summary in v1.get_collection(v1.GraphKeys.SUMMARIES)]:
        if v1.get_collection(step_outputs.MODEL_VALUES):  # a Keras model's, of which one has taken the name "loss"
            v1.add_to_collection(v1.GraphKeys.SUMMARIES, tf.raw_ops.ScalarSummary(tags="loss", values=spec.loss))
        else:  # the tag is loss_1 if model_fn has a scope called "loss", as in the events of tf.estimator
            v1.summary.scalar("loss", spec.loss)

    hooks = []
    if savers:
        saver_hook.add_listeners(savers[0], listeners)
    elif timer:
        settings = {"listeners": listeners, "save_graph_def": config.checkpoint_save_graph_def}
        savers = [saver_hook.SaverHook(config.model_dir, timer, scaffold=spec.scaffold, **settings)]
        hooks += savers
    for saver in savers:
        saver_hook.prepare_listeners(saver, spec.scaffold, config.async_checkpoints)
    hooks += spec.training_chief_hooks
    if config.log_step_count_steps or config.save_summary_steps:
        event_writer(config.model_dir)  # before a user's hook creates one for a relative path
    if config.log_step_count_steps:
        counter = v1.train.StepCounterHook(config.log_step_count_steps, output_dir=config.model_dir)
        private_tensorflow.set_timer(counter, StepTimer(every_steps=config.log_step_count_steps))
        hooks.append(counter)
    if config.save_summary_steps:
        hooks.append(
            v1.train.SummarySaverHook(config.save_summary_steps, output_dir=config.model_dir, scaffold=spec.scaffold)
        )
    return hooks


class StopIfAlreadyDone(SessionRunHook):
    """Stops before the first step if a StopAtStepHook of `hooks` has reached its last: that looks only after a step."""

    def __init__(self, hooks: list[SessionRunHook]) -> None:
        self._stops = [hook for hook in hooks if isinstance(hook, v1.train.StopAtStepHook)]
        self._global_step = v1.train.get_global_step()

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        step = session.run(self._global_step)
        last_steps = map(private_tensorflow.last_step, self._stops)
        if any(last_step is not None and step >= last_step for last_step in last_steps):
            coord.request_stop()


class LogLossHook(SessionRunHook):
    """Logs the loss every `every_steps` global steps; LoggingTensorHook counts calls of session.run instead."""

    def __init__(self, loss: tf.Tensor, every_steps: int) -> None:
        self._fetches = {"loss": loss, "step": v1.train.get_global_step()}
        self._timer = StepTimer(every_steps=every_steps)

    def begin(self) -> None:
        self._timer.reset()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        loss, step = run_values.results["loss"], run_values.results["step"]
        if self._timer.should_trigger_for_step(step):
            seconds, _ = self._timer.update_last_triggered_step(step)
            log.info("loss = %s, step = %s%s", loss, step, "" if seconds is None else f" ({seconds:.3f} sec)")


class EvalProgressHook(SessionRunHook):
    """Stops an evaluation after `limit` batches, logs its progress, and raises ValueError if there are none."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit

    def begin(self) -> None:
        self._batches = step_outputs.find(v1.get_default_graph(), step_outputs.STEPS)

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        self._count = 0

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return v1.train.SessionRunArgs(self._batches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._count += int(run_values.results or 1)
        if self._limit is None:
            return
        if self._count % max(1, self._limit // 10) == 0 or self._count == self._limit:
            log.info("Evaluation [%d/%d]", self._count, self._limit)
        if self._count >= self._limit:
            run_context.request_stop()

    def end(self, session: Session) -> None:
        if self._count == 0:  # raise before FinalOpsHook fetches results that do not exist
            raise UnsuitableError(
                "evaluate got no data: the input_fn's dataset is empty, or a hook stopped it before the first batch."
            )
