"""The range test behind `estimator_train train --find-learning-rate`."""

import click

import estimator_train as et
from estimator_train._engine.host.paths import as_path
from estimator_train.app.errors import one_line_errors, spelled
from estimator_train.app.report import learning_rates
from estimator_train.app.running.build import build_model, build_train_input_fn, local_strategy, set_verbosity
from estimator_train.app.running.errors import run_errors


def find_learning_rate(run):
    """Plots the loss over rising rates into the directory of the run and suggests one. Returns the exit code."""
    set_verbosity(run.verbosity)
    settings, training = run.settings, run.training
    with one_line_errors(), run_errors():
        config = et.RunConfig(
            tf_random_seed=settings.seed,
            train_distribute=local_strategy(training),
            **training.config_arguments | {"steps_per_loop": 1, "async_checkpoints": False},  # it looks at each step
        )
        model = build_model(settings, training)
        train_input_fn = build_train_input_fn(settings, run.data, training)
        hooks = []
        if not run.is_quiet:
            hooks.append(et.ProgressHook())
        test = learning_rates.find_learning_rate(model, train_input_fn, config, steps=run.last_step, hooks=hooks)
        path = as_path(run.model_dir, "learning_rate.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        learning_rates.plot(test, path)
    if not run.is_quiet:
        click.echo(f"the plot is {path}")
    click.secho(
        spelled(
            f"{{learning_rate={test.suggestion:.1e}}} is suggested, a tenth of the rate at which the loss was lowest"
        ),
        bold=True,
    )
    return 0
