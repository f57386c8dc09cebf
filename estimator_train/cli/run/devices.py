"""The devices that a script of `estimator_train run` finds."""

from __future__ import annotations

import click

from estimator_train.distribution import absent_gpus, strategies


def choose(gpus, replicas):
    """Lets the script see its first `gpus` GPUs alone, or has `replicas` CPU replicas stand in for those it lacks."""
    if gpus and replicas:
        raise click.ClickException("--gpus and --replicas exclude each other; give one")
    try:
        if gpus:
            strategies.show_gpus(gpus)
        else:
            absent_gpus.replace_by_cpus(replicas)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
