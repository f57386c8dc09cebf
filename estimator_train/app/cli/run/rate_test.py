"""The range test behind `estimator_train train --find-learning-rate`."""

from __future__ import annotations

import os

import click

from estimator_train.app.cli.run.build import build_input_fns, build_model, local_strategy, run_errors, set_verbosity
from estimator_train.app.cli.settings import one_line_errors
from estimator_train.app.report import learning_rates
from estimator_train.run_config import RunConfig


def find_learning_rate(settings, training, data, model_dir, steps, verbosity):
    """Plots the loss over `steps` rising rates into `model_dir` and suggests one. Returns the exit code."""
    set_verbosity(verbosity)
    with one_line_errors(), run_errors():
        config = RunConfig(
            tf_random_seed=settings.seed,
            train_distribute=local_strategy(training.gpus, training.replicas, training.all_reduce),
            accumulate_steps=training.accumulate_steps,
            mixed_precision=training.mixed_precision,
            recompute=training.recompute,
            jit_compile=training.jit_compile,
        )
        model = build_model(settings, training)
        train_input_fn, _ = build_input_fns(settings, data, training)
        test = learning_rates.find_learning_rate(model, train_input_fn, config, steps=steps)
        os.makedirs(model_dir, exist_ok=True)
        path = os.path.join(model_dir, "learning_rate.png")
        learning_rates.plot(test, path)
    click.echo(f"the plot is {path}")
    click.secho(
        f"--learning-rate {test.suggestion:.1e} is suggested, a tenth of the rate at which the loss was lowest",
        bold=True,
    )
    return 0
