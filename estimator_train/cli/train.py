"""estimator_train [train]: trains a model on a data set and evaluates it."""

from __future__ import annotations

import math
import os

import click

from estimator_train import datasets, models
from estimator_train.cli.settings import Settings, check_folder, check_function, one_line_errors

_FUNCTION = "FILE:FUNCTION"


class _ImageSize(click.ParamType):
    name = "HxW"

    def convert(self, value, param, ctx):
        sides = value.lower().split("x")
        if len(sides) > 2 or not all(side.isdigit() and int(side) > 0 for side in sides):
            self.fail(f"{value!r} is not a size in pixels such as 96 or 224x224.", param, ctx)
        return (int(sides[0]), int(sides[-1]))


@click.command()
@click.option("--dataset", metavar="NAME", help=f"{', '.join(datasets.NAMES)}.  [default: {datasets.NAMES[0]}]")
@click.option("--data-dir", metavar="FOLDER", help="Folder of the data set's files.")
@click.option("--input-fn", metavar=_FUNCTION, help="Your own training input_fn, instead of a data set.")
@click.option("--eval-input-fn", metavar=_FUNCTION, help="Your own evaluation input_fn.")
@click.option("--model", help=f"{', '.join(models.NAMES)}, or {_FUNCTION} that returns a compiled Keras model.")
@click.option("--weights", metavar="FILE", help="Weights to start from: a file, imagenet or none.")
@click.option("--image-size", type=_ImageSize(), help="Side of the images in pixels, or height x width.")
@click.option("--model-dir", metavar="FOLDER", help="Where checkpoints and events go.  [default: runs/DATASET]")
@click.option(
    "--batch-size", type=click.IntRange(1), default=32, show_default=True, help="Images a step on each replica."
)
@click.option(
    "--epochs", type=click.IntRange(1), help="How often to go through the data.  [default: the data set's own]"
)
@click.option("--max-steps", type=click.IntRange(1), help="Global step to stop at, instead of --epochs.")
@click.option("--gpus", type=click.IntRange(1), help="Train on the first N GPUs.")
@click.option("--replicas", type=click.IntRange(1), help="Train on N CPU replicas, where there is no GPU.")
@click.option("--steps-per-loop", type=click.IntRange(1), default=1, show_default=True, help="Steps a compiled call.")
@click.option(
    "--save-checkpoints-steps", type=click.IntRange(1), help="Steps between checkpoints.  [default: 10 minutes]"
)
@click.option("--evaluate-every", type=click.IntRange(1), metavar="STEPS", help="Steps between evaluations on the way.")
@click.option(
    "--early-stopping", type=click.IntRange(1), metavar="N", help="Stop after N evaluations without a lower loss."
)
@click.option("--keep-best", is_flag=True, help="Keep the evaluated checkpoint of the lowest loss in export/.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the initial weights and the order of the images.")
def train(
    dataset, data_dir, input_fn, eval_input_fn, model, weights, image_size, model_dir, batch_size, epochs, max_steps,
    gpus, replicas, steps_per_loop, save_checkpoints_steps, evaluate_every, early_stopping, keep_best, seed,
):  # fmt: skip
    """Train a model on a data set and evaluate it.

    Run again with the same --model-dir, it goes on from the newest checkpoint there.
    """
    if gpus and replicas:
        raise click.ClickException("--gpus and --replicas exclude each other; give one")
    if epochs and max_steps:
        raise click.ClickException("--epochs and --max-steps exclude each other; give one")
    for flag, given in [("--early-stopping", early_stopping), ("--keep-best", keep_best)]:
        if given and not evaluate_every:
            raise click.ClickException(f"{flag} goes by evaluations on the way; give --evaluate-every STEPS, too")
    if input_fn and (dataset or data_dir):
        raise click.ClickException("--input-fn takes the place of --dataset and --data-dir; give one or the other")
    if bool(input_fn) != bool(eval_input_fn):
        raise click.ClickException("--input-fn and --eval-input-fn go together; give both")
    if input_fn and epochs:
        raise click.ClickException("--input-fn decides itself how often it gives its data; leave out --epochs")
    if input_fn and not model:
        raise click.ClickException("--input-fn needs --model, a FILE:FUNCTION that returns a compiled Keras model")
    if not input_fn:
        dataset = dataset or datasets.NAMES[0]
    model_dir = model_dir or os.path.join("runs", dataset or "own")
    check_folder(model_dir, "--model-dir")

    with one_line_errors():
        for reference, flag in [(input_fn, "--input-fn"), (eval_input_fn, "--eval-input-fn"), (model, "--model")]:
            if reference and (":" in reference or flag != "--model"):
                check_function(reference, flag)
        if model and ":" not in model and model not in models.NAMES:
            raise ValueError(f"there is no model {model!r}; pass one of {', '.join(models.NAMES)}, or {_FUNCTION}")
        models.check_weights(weights)
        data = datasets.open_dataset(dataset, data_dir) if dataset else None

    settings = Settings(
        dataset=dataset,
        data_dir=data_dir and os.path.abspath(data_dir),
        input_fn=input_fn and os.path.abspath(input_fn),
        eval_input_fn=eval_input_fn and os.path.abspath(eval_input_fn),
        model=(os.path.abspath(model) if model and ":" in model else model) or data.default_model,
        weights=os.path.abspath(weights) if models.is_file(weights) else weights,
        image_size=image_size or (data and data.image_size),
        class_names=data.class_names if data else (),
        batch_size=batch_size,
        seed=seed,
    )
    earlier = Settings.load(model_dir)
    if earlier is not None:
        settings.check_same_model(earlier, model_dir)
    if data:
        steps_per_epoch = math.ceil(data.train_examples / (batch_size * (gpus or replicas or 1)))
        max_steps = max_steps or (epochs or data.default_epochs) * steps_per_epoch

    from estimator_train.cli import job  # TensorFlow comes with it

    job.train(
        settings, data, model_dir, max_steps, gpus, replicas, steps_per_loop, save_checkpoints_steps,
        evaluate_every, early_stopping, keep_best,
    )  # fmt: skip
