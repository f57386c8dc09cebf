"""The hooks of the Estimator's own loops, beside TensorFlow's."""

import tensorflow as tf

from estimator_train.checkpoints import object_based

v1 = tf.compat.v1
log = tf.get_logger()


class StopIfAlreadyDone(v1.train.SessionRunHook):
    """Ends a session before its first step where a StopAtStepHook's last is reached: that one looks after a step."""

    def __init__(self, hooks):
        self._stops = [hook for hook in hooks if isinstance(hook, v1.train.StopAtStepHook)]
        self._global_step = v1.train.get_global_step()

    def after_create_session(self, session, coord):
        step = session.run(self._global_step)
        if any(stop._last_step is not None and step >= stop._last_step for stop in self._stops):
            coord.request_stop()


class WaitForCheckpoint(v1.train.CheckpointSaverListener):
    """Has those that come after it find the checkpoint written."""

    def __init__(self, scaffold):
        self._scaffold = scaffold

    def after_save(self, session, global_step_value):
        object_based.wait_for(self._scaffold.saver)


def wait_before_listeners(savers, scaffold):
    """Has the listeners of the CheckpointSaverHooks find each checkpoint written."""
    for saver in savers:
        others = [listener for listener in saver._listeners if not isinstance(listener, WaitForCheckpoint)]
        saver._listeners = [WaitForCheckpoint(scaffold), *others] if others else []


class LogLoss(v1.train.SessionRunHook):
    """Logs the loss every so many steps, as LoggingTensorHook does, which counts calls of session.run instead."""

    def __init__(self, loss, every_steps):
        self._fetches = {"loss": loss, "step": v1.train.get_global_step()}
        self._timer = v1.train.SecondOrStepTimer(every_steps=every_steps)

    def begin(self):
        self._timer.reset()

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        loss, step = run_values.results["loss"], run_values.results["step"]
        if self._timer.should_trigger_for_step(step):
            seconds, _ = self._timer.update_last_triggered_step(step)
            log.info("loss = %s, step = %s%s", loss, step, "" if seconds is None else f" ({seconds:.3f} sec)")


class EvalProgressHook(v1.train.SessionRunHook):
    """Stops an evaluation after `limit` batches, says how far it is, and refuses one without any."""

    def __init__(self, limit):
        self._limit = limit

    def after_create_session(self, session, coord):
        self._count = 0

    def after_run(self, run_context, run_values):
        self._count += 1
        if self._limit is None:
            return
        if self._count % max(1, self._limit // 10) == 0 or self._count == self._limit:
            log.info("Evaluation [%d/%d]", self._count, self._limit)
        if self._count >= self._limit:
            run_context.request_stop()

    def end(self, session):
        if self._count == 0:  # before the results are fetched, which there are none of
            raise ValueError(
                "evaluate got no data: the input_fn's data set is empty, or a hook stopped it before a batch."
            )
