"""--early-stopping: the hooks that end a training at one evaluation too many, and whether they have."""

import math

import tensorflow as tf

import estimator_train as et
from estimator_train.app.runs.monitor import Monitor

_STOPS = {"min": et.experimental.stop_if_no_decrease_hook, "max": et.experimental.stop_if_no_increase_hook}


def early_stopping(training, stage):
    """Returns the hook for a stage of a training; for --keep-best alone, it only checks that the metric exists."""
    monitor, patience = Monitor.of(training.monitor), math.inf
    if training.early_stopping:
        patience = training.early_stopping * training.evaluate_every
    stop = _STOPS[monitor.direction](
        stage.estimator,
        monitor.metric,
        patience,
        min_steps=stage.first_step + 1,  # as in Keras, each phase has a best value of its own
        run_every_secs=None,
        run_every_steps=1,  # it stops right after the evaluation, not one interval later
    )
    stop.leave_out_later_steps()
    return stop


class StopBeforeFirstStep(tf.compat.v1.train.SessionRunHook):
    """Stops a training that is resumed from a checkpoint too many, which a kill has kept from being evaluated."""

    def __init__(self, stop):
        self._stop = stop  # the hook of `early_stopping`, which would look after another step

    def begin(self):
        self._global_step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session, coord):
        if self._stop.has_stopped(int(session.run(self._global_step))):
            coord.request_stop()


def has_stopped_early(training, stage, step):
    """Returns whether evaluations, and not a callback, have ended a stage of a training at a step."""
    if not (training.early_stopping and stage.last_step and step < stage.last_step):
        return False
    return early_stopping(training, stage).has_stopped(step)
