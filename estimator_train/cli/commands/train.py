"""estimator_train [train]: trains a model on a dataset and evaluates it."""

from __future__ import annotations

import dataclasses
import os
import types

import click
from click.core import ParameterSource

from estimator_train import datasets, models, recipes
from estimator_train.cli import completion
from estimator_train.cli.parameters import SEED, Count, ImageSize, Steps, Text
from estimator_train.cli.plan import newest_checkpoint, plan, steps_per_epoch
from estimator_train.cli.settings import (
    Settings,
    Training,
    check_folder,
    check_function,
    check_model_dir,
    check_same_settings,
    flags_of,
    one_line_errors,
    open_data,
    run_file,
)
from estimator_train.datasets.images import ImageDataset
from estimator_train.distribution.cluster_task import this_task

_FUNCTION = "FILE:FUNCTION"

# What a flag, given, takes the place of in the run that --config or --resume repeats.
_INSTEAD_OF = {
    "dataset": ("data_dir", "split", "input_fn", "eval_input_fn"),
    "data_dir": ("input_fn", "eval_input_fn"),
    "input_fn": ("dataset", "data_dir", "limit", "split", "batch_size", "epochs", "cache", "fast"),
    "epochs": ("max_steps",),
    "max_steps": ("epochs",),
    "gpus": ("replicas", "split_over"),
    "replicas": ("gpus", "split_over"),
    "split_over": ("gpus", "replicas", "all_reduce"),
}

# The flags that are none of a recipe's settings, and yet go with each.
_OF_EVERY_RECIPE = ("recipe", "gpus", "replicas", "all_reduce")


_EXAMPLES = """\b
Examples:
  estimator_train --dataset oct2017 --data-dir OCT2017 --gpus 2
  estimator_train --model-dir runs/oct2017 --resume
  estimator_train --config runs/oct2017/run.json --seed 2 --model-dir runs/again
"""


class _RepeatingCommand(click.Command):
    """Takes the flags that are not given from --config, or, with --resume, from the run that is there."""

    def parse_args(self, ctx, args):
        rest = super().parse_args(ctx, [*args])
        if ctx.resilient_parsing:  # for shell completion
            return rest
        path = ctx.params["config"]
        if path is None and ctx.params["resume"]:
            path = run_file(_model_dir(types.SimpleNamespace(**ctx.params)))
            path = path if path.exists() else None
        if path is not None:
            given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
            replaced = {other for name in given for other in _INSTEAD_OF.get(name, ())}
            flags = flags_of(path)
            _check_same_system(flags, {name: ctx.params[name] for name in given}, path)
            ctx.default_map = {name: value for name, value in flags.items() if name not in replaced}
            ctx.params.clear()
            rest = super().parse_args(ctx, args)
        del ctx.params["config"]
        return rest


def _check_same_system(flags, given, path):
    """Refuses to make a run of a recipe another one's, or a dataset's, and the reverse."""
    recipe, others = flags.get("recipe"), [name for name in ("dataset", "input_fn", "model") if name in given]
    wanted = given.get("recipe", recipe)
    if wanted != recipe or (recipe and others):
        of = f"the recipe {recipe}" if recipe else f"the dataset {flags.get('dataset', 'of an input_fn')}"
        raise click.ClickException(f"{path} is of a run of {of}; give another --model-dir")


@click.command(cls=_RepeatingCommand, epilog=_EXAMPLES)
@click.option(
    "--dataset",
    type=Text(),
    metavar="NAME",
    shell_complete=completion.names(datasets.names),
    help=f"{', '.join(datasets.NAMES)} or tfds:NAME.  [default: {datasets.NAMES[0]}]",
)
@click.option(
    "--recipe",
    type=Text(),
    metavar="NAME",
    shell_complete=completion.names(lambda: recipes.NAMES),
    help="A whole system instead of a dataset and a model: see estimator_train recipes.",
)
@click.option(
    "--data-dir",
    type=Text(),
    metavar="FOLDER",
    shell_complete=completion.folders,
    help="Folder of the dataset's files.",
)
@click.option("--input-fn", type=Text(), metavar=_FUNCTION, help="Your own training input_fn, instead of a dataset.")
@click.option("--eval-input-fn", type=Text(), metavar=_FUNCTION, help="Your own evaluation input_fn.")
@click.option(
    "--model",
    type=Text(),
    shell_complete=completion.names(lambda: models.NAMES),
    help=f"{', '.join(models.NAMES)}, or {_FUNCTION} that returns a compiled Keras model.",
)
@click.option(
    "--weights",
    type=Text(),
    metavar="FILE",
    shell_complete=completion.files,
    help="Weights to start from: a file, imagenet or none.",
)
@click.option("--image-size", type=ImageSize(), help="Side of the images in pixels, or height x width.")
@click.option(
    "--model-dir",
    type=Text(),
    metavar="FOLDER",
    shell_complete=completion.folders,
    help="Where checkpoints and events go.  [default: runs/DATASET]",
)
@click.option("--limit", type=Count(2), metavar="N", help="Take so many images, of each class its share.")
@click.option("--split", type=click.Choice(["patient"]), help="Evaluate on patients that are not trained on.")
@click.option(
    "--batch-size",
    type=Count(),
    metavar="N",
    help="Images a step on each replica.  [default: the dataset's own]",
)
@click.option(
    "--epochs",
    type=Count(),
    metavar="N",
    help="How often to go through the data.  [default: the dataset's own]",
)
@click.option("--max-steps", type=Steps(), metavar="N", help="Global step to stop at, instead of --epochs.")
@click.option("--gpus", type=Count(), metavar="N", help="Train on the first N GPUs.")
@click.option("--replicas", type=Count(), metavar="N", help="Train on N CPU replicas, where there is no GPU.")
@click.option(
    "--all-reduce",
    type=click.Choice(["nccl", "hierarchical", "one_device"]),
    help="How gradients are summed over the replicas.  [default: as TensorFlow chooses]",
)
@click.option("--split-over", type=Count(2), metavar="N", help="Split the recipe's model over N devices.")
@click.option("--filters", type=Count(), metavar="N", help="Of the first convolution of the recipe's model.")
@click.option("--volume", type=Count(), metavar="N", help="Side of the recipe's volumes in voxels.")
@click.option(
    "--steps-per-loop", type=Count(), metavar="N", default=1, show_default=True, help="Steps a compiled call."
)
@click.option(
    "--cache",
    type=Text(),
    metavar="memory|features|FOLDER",
    shell_complete=completion.folders,
    help="Keep decoded images in memory or in a folder; or what the model's frozen layers make of them.",
)
@click.option("--fast", is_flag=True, help="Have the JPEG decoder scale large images down; the values differ.")
@click.option(
    "--accumulate-steps",
    type=Count(),
    metavar="N",
    default=1,
    show_default=True,
    help="Batches of each replica that make one update, a step.",
)
@click.option("--mixed-precision", type=click.Choice(["bfloat16", "float16"]), help="Compute in 16 bits.")
@click.option("--recompute", is_flag=True, help="Compute activations again in the backward pass; takes less memory.")
@click.option("--jit-compile", is_flag=True, help="Compile the step with XLA; for one replica.")
@click.option("--async-checkpoints", is_flag=True, help="Train on while a checkpoint is written.")
@click.option(
    "--save-checkpoints-steps",
    type=Steps(),
    metavar="N",
    help="Steps between checkpoints.  [default: 10 minutes]",
)
@click.option("--evaluate-every", type=Steps(), metavar="STEPS", help="Steps between evaluations on the way.")
@click.option("--early-stopping", type=Count(), metavar="N", help="Stop after N evaluations without a lower loss.")
@click.option("--keep-best", is_flag=True, help="Keep the evaluated checkpoint of the lowest loss in export/.")
@click.option("--seed", type=SEED, metavar="N", help="Seed of the initial weights and the order of the images.")
@click.option(
    "--config",
    type=Text(),
    metavar="FILE",
    shell_complete=completion.files,
    help="The run.json of a run to repeat; flags given win over it.",
)
@click.option("--resume", is_flag=True, help="Go on with the run in --model-dir; where there is none, start it.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--quiet", is_flag=True, help="Show errors and the last result only.")
@click.option("--verbose", is_flag=True, help="Show TensorFlow's log from INFO on, too.")
def train(model_dir, resume, dry_run, quiet, verbose, **flags):
    """Train a model on a dataset and evaluate it.

    A folder that holds a run already is refused without --resume. Ctrl-C ends training with a checkpoint saved.
    """
    if quiet and verbose:
        raise click.ClickException("--quiet and --verbose exclude each other; give one")
    verbosity = "quiet" if quiet else "verbose" if verbose else "normal"
    flags = types.SimpleNamespace(model_dir=model_dir, **flags)
    _check_conflicts(flags)
    with one_line_errors():
        task = this_task()
    if flags.recipe:
        return _train_recipe(flags, task, resume, dry_run, verbosity)
    if flags.replicas and not task.is_alone:
        raise click.ClickException("--replicas is for one process; in TF_CONFIG's cluster every worker is a replica")
    model_dir = _model_dir(flags)
    check_model_dir(model_dir)
    check_folder(model_dir, "--model-dir")
    if task.is_chief and not resume:
        _check_no_run(model_dir)
    if newest_checkpoint(model_dir) and not (run_file(model_dir).exists() or flags.dataset or flags.input_fn):
        raise click.ClickException(
            f"{model_dir} holds a run that has lost its run.json; give --dataset or --input-fn, and its other flags"
        )
    if not flags.input_fn:
        flags.dataset = flags.dataset or datasets.NAMES[0]
    if dry_run and _must_be_downloaded(flags):
        about = datasets.named(flags.dataset).ABOUT
        click.echo(f"{flags.dataset} is not here: training gets it first, {about.size}, {about.source}")
        return 0

    settings, data = _settings(flags)
    earlier = Settings.load(model_dir)
    if earlier is not None:
        settings.check_same(earlier, model_dir)
    training = _training(flags, data)
    last_step = training.max_steps or (data and training.epochs * steps_per_epoch(settings, training, data))
    if task.is_chief and (not quiet or dry_run):
        click.echo("\n".join(plan(settings, training, data, model_dir, last_step)))
    if task.is_chief:
        _say_if_it_starts_anew(model_dir)
    if dry_run:
        return 0

    if quiet:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # that there is no GPU is logged as an error
    from estimator_train.cli.run.training import train  # TensorFlow comes with it

    return train(settings, training, data, model_dir, last_step, task, verbosity)


def _train_recipe(flags, task, resume, dry_run, verbosity):
    with one_line_errors():
        known = recipes.settings_of(flags.recipe)
    context = click.get_current_context()
    given = {
        name: value
        for name, value in vars(flags).items()
        if context.get_parameter_source(name) in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)
    }
    settings = {name: value for name, value in given.items() if name not in ("model_dir", *_OF_EVERY_RECIPE)}
    for name in settings:
        if name not in known:
            there = [name for name in known if hasattr(flags, name)] + [*_OF_EVERY_RECIPE[1:]]
            flags_there = ", ".join(map(_flag, there))
            raise click.ClickException(f"the recipe {flags.recipe} takes no {_flag(name)}; it takes {flags_there}")
    if not task.is_alone:
        raise click.ClickException("a recipe trains in one process; unset TF_CONFIG")
    if settings.get("data_dir") and not settings["data_dir"].startswith("tfds:"):
        settings["data_dir"] = os.path.abspath(settings["data_dir"])
    if models.is_file(settings.get("weights")):
        settings["weights"] = os.path.abspath(settings["weights"])
    model_dir = _model_dir(flags)
    check_model_dir(model_dir)
    check_folder(model_dir, "--model-dir")
    if not resume:
        _check_no_run(model_dir)
    elif run_file(model_dir).exists():
        check_same_settings(settings, run_file(model_dir))
    if dry_run or verbosity != "quiet":
        facts = {name: value for name, value in given.items() if name != "model_dir"} | {"folder": model_dir}
        click.echo("\n".join(f"{name:<12} {value}" for name, value in facts.items()))
    _say_if_it_starts_anew(model_dir)
    if dry_run:
        return 0
    if verbosity == "quiet":
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from estimator_train.cli.run import recipe_training

    replicas = {name: getattr(flags, name) for name in _OF_EVERY_RECIPE[1:]}
    return recipe_training.train(flags.recipe, settings, model_dir, replicas, verbosity)


def _flag(name):
    return f"--{name.replace('_', '-')}"


def _check_conflicts(flags):
    if flags.split_over and (flags.gpus or flags.replicas):
        raise click.ClickException(
            "--split-over has one model on several devices, --gpus and --replicas have one on each; give one"
        )
    if flags.all_reduce and not (flags.gpus or flags.replicas):
        raise click.ClickException("--all-reduce is over replicas; give --gpus N or --replicas N, too")
    of_recipes = {"--filters": flags.filters, "--volume": flags.volume, "--split-over": flags.split_over}
    for flag, given in of_recipes.items():
        if given and not flags.recipe:
            raise click.ClickException(f"{flag} is for recipes; give --recipe NAME, too")
    if flags.gpus and flags.replicas:
        raise click.ClickException("--gpus and --replicas exclude each other; give one")
    if flags.epochs and flags.max_steps:
        raise click.ClickException("--epochs and --max-steps exclude each other; give one")
    for flag, given in [("--early-stopping", flags.early_stopping), ("--keep-best", flags.keep_best)]:
        if given and not flags.evaluate_every:
            raise click.ClickException(f"{flag} goes by evaluations on the way; give --evaluate-every STEPS, too")
    if flags.input_fn and (flags.dataset or flags.data_dir):
        raise click.ClickException("--input-fn takes the place of --dataset and --data-dir; give one or the other")
    if bool(flags.input_fn) != bool(flags.eval_input_fn):
        raise click.ClickException("--input-fn and --eval-input-fn go together; give both")
    if flags.input_fn and flags.epochs:
        raise click.ClickException("--input-fn decides itself how often it gives its data; leave out --epochs")
    of_data = {
        "--batch-size": flags.batch_size,
        "--limit": flags.limit,
        "--split": flags.split,
        "--cache": flags.cache,
        "--fast": flags.fast,
    }
    for flag, given in of_data.items():
        if flags.input_fn and given:
            raise click.ClickException(f"--input-fn decides itself what is in its batches; leave out {flag}")
    if flags.input_fn and not flags.model:
        raise click.ClickException("--input-fn needs --model, a FILE:FUNCTION that returns a compiled Keras model")


def _model_dir(flags):
    name = "own" if flags.input_fn else flags.recipe or flags.dataset or datasets.NAMES[0]
    return flags.model_dir or os.path.join("runs", name)


def _check_no_run(model_dir):
    checkpoint = newest_checkpoint(model_dir)
    if checkpoint or run_file(model_dir).exists():
        where = f"trained to {checkpoint}" if checkpoint else "without a checkpoint yet"
        raise click.ClickException(f"{model_dir} holds a run, {where}; add --resume, or give another --model-dir")


def _say_if_it_starts_anew(model_dir):
    """Warns that a run without a checkpoint starts at step 0, as its checkpoints may have been lost."""
    if run_file(model_dir).exists() and newest_checkpoint(model_dir) is None:
        click.echo(f"estimator_train: {model_dir} holds a run and no checkpoint: it starts at step 0", err=True)


def _must_be_downloaded(flags):
    """Whether training would have to; the embedded dataset is soon drawn, and not downloaded."""
    if flags.data_dir or flags.dataset in (None, datasets.NAMES[0]):
        return False
    with one_line_errors():
        module = datasets.named(flags.dataset)
        return hasattr(module, "is_here") and not module.is_here()


def _training(flags, data):
    training = Training(**{field.name: getattr(flags, field.name) for field in dataclasses.fields(Training)})
    if training.max_steps or data is None:
        return training
    return dataclasses.replace(training, epochs=training.epochs or data.default_epochs)


def _settings(flags):
    """The `Settings`, and the dataset, or None for an input_fn."""
    model, weights = flags.model, flags.weights
    with one_line_errors():
        for flag, reference in [("--input-fn", flags.input_fn), ("--eval-input-fn", flags.eval_input_fn)]:
            if reference:
                check_function(reference, flag)
        if model and ":" in model:
            check_function(model, "--model")
        elif model and model not in (*models.NAMES, *models.FORMER_NAMES):
            raise ValueError(f"there is no model {model!r}; pass one of {', '.join(models.NAMES)}, or {_FUNCTION}")
        models.check_weights(weights)
    data = None
    if flags.dataset:
        data = open_data(flags.dataset, flags.data_dir, limit=flags.limit, split=flags.split, seed=flags.seed)
        for flag, given in [("--cache", flags.cache), ("--fast", flags.fast)]:
            if given and not isinstance(data, ImageDataset):
                raise click.ClickException(f"{flag} is for image files, and {data.name} has none; leave it out")
    settings = Settings(
        dataset=flags.dataset,
        data_dir=flags.data_dir and os.path.abspath(flags.data_dir),
        input_fn=flags.input_fn and os.path.abspath(flags.input_fn),
        eval_input_fn=flags.eval_input_fn and os.path.abspath(flags.eval_input_fn),
        model=(os.path.abspath(model) if model and ":" in model else model) or data.default_model,
        weights=os.path.abspath(weights) if models.is_file(weights) else weights,
        image_size=flags.image_size or (data and data.image_size),
        class_names=data.class_names if data else (),
        batch_size=flags.batch_size or (data and data.default_batch_size),
        seed=flags.seed,
        limit=flags.limit,
        split=flags.split,
        fast=flags.fast,
    )
    return settings, data
