"""estimator_train memory: what training the model of a recipe takes of the memory of devices."""

from __future__ import annotations

import inspect
import os

import click
import tabulate

from estimator_train import recipes
from estimator_train.cli.parameters import Count, Text
from estimator_train.cli.settings import one_line_errors

_DEVICE_COUNTS = (1, 2, 4, 8)
_GB = 1e9


@click.command()
@click.option(
    "--recipe", type=Text(), metavar="NAME", default="unet3d", show_default=True, help=f"{', '.join(recipes.NAMES)}."
)
@click.option("--volume", type=Count(), help="Side of the volumes in voxels.  [default: the recipe's]")
@click.option("--filters", type=Count(), help="Of the first convolution.  [default: the recipe's]")
@click.option("--batch-size", type=Count(), default=1, show_default=True, help="Examples a step.")
@click.option(
    "--device-memory",
    type=click.FloatRange(0, min_open=True),
    default=16,
    show_default=True,
    metavar="GB",
    help="Of each device.",
)
def memory(recipe, batch_size, device_memory, **options):
    """Estimate the memory that training takes, on one device and split over several.

    Nothing is trained, and the devices need not be there.

    \b
      estimator_train memory --recipe unet3d --volume 240
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the weights of the estimate stay in the memory of the host
    with one_line_errors():
        build_model = _build_model(recipe, options)
        from estimator_train.keras.devices.memory_estimate import estimate, fits

        model = build_model()
        counts = [count for count in _DEVICE_COUNTS if count <= len(model.layers) - len(model.inputs)]
        estimates = {count: estimate(model, batch_size, count) for count in counts}
    capacity = device_memory * _GB
    fitting = [count for count in counts if fits(estimates[count], capacity)]
    rows = []
    for count, devices in estimates.items():
        sums = [sum(part) / _GB for part in zip(*devices, strict=True)]
        rows.append([count, *sums, max(each.total for each in devices) / _GB, "yes" if count in fitting else "no"])
    headers = ["devices", "weights", "optimizer", "activations", "fullest device", f"fits {device_memory:g} GB"]
    click.echo(f"{model.name}, {model.count_params():,} parameters, batches of {batch_size}, in GB:")
    click.echo(tabulate.tabulate(rows, headers, floatfmt=".3f"))
    if not fitting:
        click.echo(f"It does not fit on {counts[-1]} devices: take smaller volumes, batches or layers.")
    elif fitting[0] == 1:
        click.echo("It fits on one device.")
    else:
        click.echo(f"It fits with --split-over {fitting[0]}.")


def _build_model(recipe, options):
    """The function without arguments that builds the recipe's model with the options that are given."""
    build = getattr(recipes.named(recipe), "build_model", None)
    if build is None:
        raise ValueError(f"{recipe} has no one model to estimate the memory of")
    given = {name: value for name, value in options.items() if value is not None}
    unknown = given.keys() - inspect.signature(build).parameters.keys()
    if unknown:
        raise ValueError(f"{recipe} has no {', '.join(sorted(unknown))} to choose")
    return lambda: build(**given)
