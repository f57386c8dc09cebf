"""estimator_train memory: estimates the device memory that training a model needs."""

from __future__ import annotations

import inspect
import os
from types import SimpleNamespace

import click
import tabulate

from estimator_train.app import recipes
from estimator_train.app.cli.commands.dataset_run import must_be_fetched
from estimator_train.app.cli.conflicts import Excludes, Needs, check_conflicts
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.settings import Recipe, Settings
from estimator_train.app.cli.startup import starting_tensorflow
from estimator_train.app.cli.table import given_of, option

_DEVICE_COUNTS = (1, 2, 4, 8)
_GB = 1e9

_RECIPE_FLAGS, _IMAGE_FLAGS = ("volume", "filters"), ("dataset", "data_dir", "model", "image_size")

_RULES = (
    Excludes(_IMAGE_FLAGS, "a recipe has its own model and data; leave out --recipe or {other}", "recipe"),
    *(Excludes(_IMAGE_FLAGS, "{flag} is for recipes; leave out {flag} or {other}", flag) for flag in _RECIPE_FLAGS),
    Needs(("dataset", "model"), "--image-size is for --dataset and --model; give one, too", "image_size"),
    Needs(("dataset",), "--data-dir is for --dataset; give it, too", "data_dir"),
)


@click.command()
@option(Recipe, "recipe", help=f"{', '.join(recipes.NAMES)}.  [default: unet3d]")
@option(Recipe, "volume", help="Side length of the volumes in voxels.  [default: the recipe's]")
@option(Recipe, "filters", help="Filters in the first convolution.  [default: the recipe's]")
@option(Settings, "dataset", help="Dataset to train on, instead of a recipe.")
@option(Settings, "data_dir", help="Directory of the dataset's files.")
@option(
    Settings,
    "model",
    help="Model name or FILE:FUNCTION, as for training, instead of a recipe.  [default: the dataset's]",
)
@option(Settings, "image_size", help="Image size: one side, or height x width.  [default: the dataset's]")
@option(Settings, "batch_size", help="Examples per step.  [default: the dataset's, else 1]")
@click.option(
    "--device-memory",
    type=click.FloatRange(0, min_open=True),
    default=16,
    show_default=True,
    metavar="GB",
    help="Memory of each device.",
)
def memory(device_memory, **flags):
    """Estimate the device memory that training a recipe, also split over devices, or a model needs.

    Nothing is trained, and the devices do not have to exist.

    \b
      estimator_train memory --recipe unet3d --volume 240
      estimator_train memory --model vgg16 --image-size 224 --batch-size 32
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # keeps the model's weights in host memory
    flags = SimpleNamespace(**flags)
    check_conflicts(flags, _RULES)
    has_images = flags.dataset or flags.model
    with one_line_errors():
        build_model, batch_size = _image_model(flags) if has_images else (_recipe_model(flags), flags.batch_size or 1)
        with starting_tensorflow():
            from estimator_train.memory_estimate import estimate, fits

        model = build_model()
        most = 1 if has_images else len(model.layers) - len(model.inputs)
        counts = [count for count in _DEVICE_COUNTS if count <= most]
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
        on = f"{counts[-1]} devices" if counts[-1] > 1 else "a device"
        click.echo(f"It does not fit on {on}: take smaller {'images' if has_images else 'volumes'}, batches or layers.")
    elif fitting[0] == 1:
        click.echo("It fits on one device.")
    else:
        click.echo(f"It fits with --split-over {fitting[0]}.")


def _recipe_model(flags):
    """Returns a function that builds the recipe's model with the given options."""
    name = flags.recipe or "unet3d"
    recipes.settings_of(name)  # raises ValueError for an unknown name
    given = {option: value for option in _RECIPE_FLAGS if (value := getattr(flags, option)) is not None}

    def build():
        build_model = getattr(recipes.named(name), "build_model", None)
        if build_model is None:
            raise ValueError(f"{name} has more than one model; its memory cannot be estimated")
        unknown = given.keys() - inspect.signature(build_model).parameters.keys()
        if unknown:
            raise ValueError(f"{name} takes no {', '.join(sorted(unknown))}")
        return build_model(**given)

    return build


def _image_model(flags):
    """Returns a function that builds the model for a dataset, or for two classes without one, and the batch size."""
    if flags.dataset and must_be_fetched(flags):
        raise ValueError(f"{flags.dataset} is not here; give --model and --image-size instead")
    settings = Settings(**given_of(flags, Settings), class_names=("first", "second"))
    settings = settings.filled_by(settings.open_data(draw=False))
    if settings.image_size is None and ":" not in settings.model:
        raise ValueError("--model needs --image-size, or a --dataset to take it from")

    def build():
        from estimator_train.app.cli.run.build import build_model

        return build_model(settings)

    return build, settings.batch_size or 1
