"""estimator_train memory: estimates the device memory that training a model needs."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import tabulate

from estimator_train.app.cli.parameters import Value
from estimator_train.app.cli.table import option
from estimator_train.app.errors import one_line_errors
from estimator_train.app.running.planning import must_be_fetched
from estimator_train.app.running.startup import starting_tensorflow
from estimator_train.app.runs.fields import given_of
from estimator_train.app.runs.rules import Needs, check_rules
from estimator_train.app.runs.spec import Settings
from estimator_train.app.runs.values import Number

if TYPE_CHECKING:
    from estimator_train.memory_estimate import Memory

_GB = 1e9

_RULES = (
    Needs(("dataset", "model"), "--image-size is for --dataset and --model; give one, too", "image_size"),
    Needs(("dataset",), "--data-dir is for --dataset; give it, too", "data_dir"),
)


@click.command()
@option(Settings, "dataset", help="Dataset to train on.")
@option(Settings, "data_dir", help="Directory of the dataset's files.")
@option(Settings, "model", help="Model name or FILE:FUNCTION, as for training.  [default: the dataset's]")
@option(Settings, "image_size", help="Image size: one side, or height x width.  [default: the dataset's]")
@option(Settings, "batch_size", help="Examples per step.  [default: the dataset's, else 1]")
@click.option(
    "--device-memory",
    type=Value(Number("GB", positive=True)),
    default=16,
    show_default=True,
    help="Memory of the device.",
)
def memory(device_memory: float, **given: Any) -> None:
    """Estimate the device memory that training a model needs.

    Nothing is trained, and the device does not have to exist.

    \b
      estimator_train memory --model vgg16 --image-size 224 --batch-size 32
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # keeps the model's weights in host memory
    flags = SimpleNamespace(**given)
    check_rules(vars(flags), _RULES)
    with one_line_errors():
        settings = _settings(flags)
        with starting_tensorflow():
            from estimator_train.app.running.build import build_model
            from estimator_train.memory_estimate import estimate, fits

        model, batch_size = build_model(settings), settings.batch_size or 1
        (device,) = estimate(model, batch_size)
    click.echo(f"{model.name}, {model.count_params():,} parameters, batches of {batch_size}, in GB:")
    _show(device, device_memory, fits([device], device_memory * _GB))


def _show(device: Memory, device_memory: float, is_enough: bool) -> None:
    fits, advice = "yes", "It fits on one device."
    if not is_enough:
        fits, advice = "no", "It does not fit on a device: take smaller images, batches or layers."
    row = [*(part / _GB for part in (*device, device.total)), fits]
    headers = ["weights", "optimizer", "activations", "total", f"fits {device_memory:g} GB"]
    click.echo(tabulate.tabulate([row], headers, floatfmt=".3f"))
    click.echo(advice)


def _settings(flags: SimpleNamespace) -> Settings:
    """Returns the settings of a training on a dataset, or on two classes without one."""
    if not (flags.dataset or flags.model):
        raise ValueError("give --dataset NAME, or --model NAME and --image-size")
    if flags.dataset and must_be_fetched(flags.dataset, flags.data_dir):
        raise ValueError(f"{flags.dataset} is not here; give --model and --image-size instead")
    settings = Settings(**given_of(vars(flags), Settings), class_names=("first", "second"))
    settings = settings.filled_by(settings.open_data(draw=False))
    if settings.image_size is None and ":" not in settings.model:
        raise ValueError("--model needs --image-size, or a --dataset to take it from")
    return settings
