"""Chooses the devices that a script of `estimator_train run` sees, and checks that training has the GPUs it needs."""

from __future__ import annotations

import click
import tensorflow as tf

from estimator_train.app.cli.errors import one_line_errors
from estimator_train.distribution import absent_gpus, strategies


def choose(gpus, replicas):
    """Shows the script only the first `gpus` GPUs, or lets `replicas` CPU replicas stand in for missing GPUs."""
    if gpus and replicas:
        raise click.ClickException("--gpus and --replicas exclude each other; give one")
    with one_line_errors():
        if gpus:
            strategies.show_gpus(gpus)
        else:
            absent_gpus.replace_by_cpus(replicas)


def name_idle_gpus():
    """Says how many GPUs a training on one of them leaves idle, if no flag has chosen their number."""
    seen = len(tf.config.get_visible_devices("GPU"))
    if seen > 1:
        click.echo(f"estimator_train: training uses 1 of {seen} GPUs; --gpus {seen} uses all", err=True)


def check_gpus(count):
    """Checks that TensorFlow sees `count` GPUs, before anything is downloaded to train on them."""
    with one_line_errors():
        strategies.check_gpus(count)
