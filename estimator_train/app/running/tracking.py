"""The hooks behind `--log` and `--callbacks`."""

import contextlib
import dataclasses

import estimator_train as et
from estimator_train.app.errors import SettingError, one_line_errors
from estimator_train.app.running.build import load_function


@contextlib.contextmanager
def opened_loggers(run):
    """Yields the chief's loggers after logging the settings to them; closes them at the end."""
    names, opened, succeeded = run.training.log or (), [], False
    if not run.task.is_chief:
        names = ()
    params = dataclasses.asdict(run.settings) | dataclasses.asdict(run.training)
    try:
        with one_line_errors():
            for name in names:
                opened.append(et.loggers.open_logger(name, run.model_dir))
        for logger in opened:
            logger.log_params({name: value for name, value in params.items() if value is not None})
        yield opened
        succeeded = True
    finally:
        for logger in opened:
            logger.close(succeeded=succeeded)


def logger_hooks(opened, run, every):
    """Returns the loggers' hooks: a CSV file gets a line per epoch or evaluation, trackers log every `every` steps."""
    per_line = run.steps_per_epoch or run.training.evaluate_every or every
    return [
        et.LoggerHook(
            logger,
            every_n_steps=per_line if isinstance(logger, et.loggers.CSVLogger) else every,
            steps_per_epoch=run.steps_per_epoch,
            first_step=run.first_step,
        )
        for logger in opened
    ]


def callback_hooks(run):
    """Returns a list with the hook of the user's callbacks, empty if there are none."""
    function = run.training.callbacks
    if not function:
        return []
    callbacks = load_function(function)()
    with one_line_errors():
        try:
            return [et.CallbacksHook(callbacks, run.steps_per_epoch, first_step=run.first_step)]
        except TypeError as error:
            raise SettingError("{callbacks} {0}: {1}", function, error) from error
