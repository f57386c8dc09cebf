"""tf.contrib.learn.learn_runner: makes an Experiment and runs it."""

import os
from collections.abc import Callable
from typing import Any

from estimator_train.compat.tf1.hparams import HParams
from estimator_train.compat.tf1.learn.experiment import Experiment
from estimator_train.run_config import RunConfig


def run(
    experiment_fn: Callable[..., Experiment],
    output_dir: str | os.PathLike[str] | None = None,
    schedule: str | None = None,
    run_config: RunConfig | None = None,
    hparams: HParams | None = None,
) -> Any:
    """Calls a method of the Experiment that `experiment_fn` returns, and returns its result.

        learn_runner.run(experiment_fn, run_config=tf.contrib.learn.RunConfig(model_dir="runs/a"))

    `experiment_fn` gets `output_dir` by this name, or `run_config` and `hparams`. `schedule` is the method's name,
    by default "train_and_evaluate", which does the work of this process's task.
    """
    if output_dir is not None and run_config is not None:
        raise ValueError("Cannot provide both `output_dir` and `run_config`")
    if not callable(experiment_fn):
        raise TypeError(f'Experiment builder "{experiment_fn}" is not callable.')
    if run_config is not None:
        if run_config.model_dir is None:
            raise ValueError("Must specify a model directory `model_dir` in `run_config`.")
        experiment = experiment_fn(run_config, hparams)
    elif not output_dir:
        raise ValueError("Must set value for `output_dir` or `run_config`")
    elif hparams is not None:
        raise ValueError("Cannot provide both `hparams` and `output_dir`; pass run_config with hparams")
    else:
        experiment = experiment_fn(output_dir=output_dir)
    if not isinstance(experiment, Experiment):
        raise TypeError(f"Experiment builder did not return an Experiment instance, got {type(experiment)} instead.")
    return _task(experiment, schedule or "train_and_evaluate")()


def _task(experiment, schedule):
    task = getattr(experiment, schedule, None)
    if callable(task) and not schedule.startswith("_"):
        return task
    tasks = [name for name in dir(experiment) if not name.startswith("_") and callable(getattr(experiment, name))]
    raise ValueError(f"Schedule references non-existent task {schedule}; there are {', '.join(tasks)}")
