"""Chooses the devices that this process sees, and names the GPUs that training leaves idle."""

import click
import tensorflow as tf

from estimator_train._engine.distribution import absent_gpus, strategies
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.messages import warn


def choose(gpus, replicas=None):
    """Shows this process only the first `gpus` GPUs, or lets `replicas` CPU replicas stand in for missing GPUs."""
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
        warn(f"training uses 1 of {seen} GPUs; --gpus {seen} uses all")
