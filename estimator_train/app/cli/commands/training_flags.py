"""The flags of `train`, grouped as in its help."""

from __future__ import annotations

import click
import cloup

from estimator_train import loggers
from estimator_train.app import datasets, models, recipes
from estimator_train.app.cli import completion, environment
from estimator_train.app.cli.monitor import Metric
from estimator_train.app.cli.parameters import (
    SEED,
    Augmentations,
    Count,
    Folder,
    ImageSize,
    Loggers,
    Number,
    Phases,
    Steps,
    Text,
)
from estimator_train.app.models.optimization import OPTIMIZERS, SCHEDULES

FUNCTION = "FILE:FUNCTION"

MOST_USED = cloup.option_group(
    "Most used",
    cloup.option(
        "--dataset",
        type=Text(),
        metavar="NAME",
        shell_complete=completion.names(datasets.names),
        help=f"{', '.join(datasets.NAMES)}, tfds:NAME or hf:NAME.  [default: {datasets.NAMES[0]}]",
    ),
    cloup.option(
        "--data-dir",
        type=Folder(),
        metavar="FOLDER",
        shell_complete=completion.folders,
        help="Directory of the dataset's files, or its single file.",
    ),
    cloup.option(
        "--model",
        type=Text(),
        shell_complete=completion.names(lambda: models.NAMES),
        help="small_cnn, fashion_mnist_cnn, a classifier of keras.applications such as mobilenet_v2 or resnet50, or "
        f"{FUNCTION} that returns a compiled Keras model.",
    ),
    cloup.option(
        "--epochs",
        type=Count(),
        metavar="N",
        help="Passes over the data.  [default: the dataset's own]",
    ),
    cloup.option(
        "--batch-size",
        type=Count(),
        metavar="N",
        help="Images per step on each replica.  [default: the dataset's own]",
    ),
    cloup.option(
        "--learning-rate",
        type=Number(positive=True),
        metavar="RATE",
        help="Learning rate, or the peak rate of --schedule.  [default: the model's own]",
    ),
    cloup.option(
        "--augment",
        type=Augmentations(),
        help=f"Random changes to training images, separated by commas: {', '.join(Augmentations.NAMES)}.",
    ),
    cloup.option("--gpus", type=Count(), metavar="N", help="Train on the first N GPUs."),
    cloup.option(
        "--model-dir",
        type=Folder(),
        metavar="FOLDER",
        shell_complete=completion.folders,
        envvar=environment.MODEL_DIR,
        help="Directory for checkpoints and events.  [default: runs/DATASET]",
    ),
    cloup.option("--resume", is_flag=True, help="Continue the run in --model-dir, or start one if there is none."),
)

DATA = cloup.option_group(
    "Data",
    cloup.option("--image-size", type=ImageSize(), help="Image size in pixels: one side, or height x width."),
    cloup.option("--limit", type=Count(2), metavar="N", help="Use at most N images, keeping class proportions."),
    cloup.option("--split", type=click.Choice(["patient"]), help="Evaluate on patients held out from training."),
    cloup.option(
        "--task",
        type=click.Choice(models.TASKS),
        help="Kind of labels in --dataset manifest: a class, several labels, or a number.  [default: a class]",
    ),
    cloup.option(
        "--cache",
        type=Folder(),
        metavar="memory|features|FOLDER",
        shell_complete=completion.folders,
        help="Cache decoded images in memory or in a directory, or cache the outputs of the model's frozen layers.",
    ),
    cloup.option("--fast", is_flag=True, help="Let the JPEG decoder scale large images down; pixel values differ."),
    cloup.option("--input-fn", type=Text(), metavar=FUNCTION, help="Your own training input_fn, instead of a dataset."),
    cloup.option("--eval-input-fn", type=Text(), metavar=FUNCTION, help="Your own evaluation input_fn."),
)

MODEL = cloup.option_group(
    "Model",
    cloup.option(
        "--weights",
        type=Folder(),
        metavar="FILE",
        shell_complete=completion.files,
        help="Initial weights: a file, imagenet or none.",
    ),
    cloup.option(
        "--freeze",
        type=Text(),
        metavar="all|none|N|LAYER",
        help="Backbone layers to freeze: all, none, the first N, or all up to a named layer."
        "  [default: none with --weights none, else the model's own]",
    ),
    cloup.option(
        "--phases",
        type=Phases(),
        help='Fine-tune in phases, such as "freeze=all epochs=2 lr=1e-3; freeze=none epochs=5 lr=1e-5".',
    ),
    cloup.option(
        "--recipe",
        type=Text(),
        metavar="NAME",
        shell_complete=completion.names(lambda: recipes.NAMES),
        help="A complete training program instead of a dataset and a model; see estimator_train recipes.",
    ),
    cloup.option(
        "--dropout",
        type=Number(below=1),
        metavar="SHARE",
        help="Dropout rate before the last layer.",
    ),
    cloup.option(
        "--filters", type=Count(), metavar="N", help="Filters in the first convolution of the recipe's model."
    ),
    cloup.option("--volume", type=Count(), metavar="N", help="Side length of the recipe's volumes in voxels."),
)

TRAINING = cloup.option_group(
    "Training",
    cloup.option("--max-steps", type=Steps(), metavar="N", help="Global step to stop at, instead of --epochs."),
    cloup.option(
        "--accumulate-steps",
        type=Count(),
        metavar="N",
        default=1,
        show_default=True,
        help="Batches per replica that are combined into one update.",
    ),
    cloup.option(
        "--optimizer",
        type=click.Choice(list(OPTIMIZERS)),
        metavar="NAME",
        help=f"{', '.join(OPTIMIZERS)}, with Keras' defaults.  [default: the model's own]",
    ),
    cloup.option(
        "--schedule",
        type=click.Choice(SCHEDULES),
        help="Learning-rate schedule up to the last step.  [default: as the model is compiled]",
    ),
    cloup.option(
        "--warmup-steps", type=Steps(), metavar="N", help="Raise the learning rate from 0 over the first N steps."
    ),
    cloup.option("--scale-learning-rate", is_flag=True, help="Multiply the learning rate by the number of replicas."),
    cloup.option("--weight-decay", type=Number(), metavar="RATE", help="Decoupled weight decay, Keras' weight_decay."),
    cloup.option(
        "--clip-norm",
        type=Number(positive=True),
        metavar="NORM",
        help="Clip gradients to this global norm, Keras' global_clipnorm.",
    ),
    cloup.option(
        "--ema",
        type=Number(below=1),
        metavar="MOMENTUM",
        help="Evaluate and export a moving average of the weights, with a momentum such as 0.999.",
    ),
    cloup.option(
        "--label-smoothing",
        type=Number(below=1),
        metavar="SHARE",
        help="Share of each label to spread over all classes.",
    ),
    cloup.option(
        "--class-weights",
        type=Text(),
        metavar="balanced|FILE",
        shell_complete=completion.files,
        help="Weight classes by their counts, or by a JSON or CSV file of names and weights.",
    ),
    cloup.option(
        "--find-learning-rate", is_flag=True, help="Plot the loss over rising learning rates, suggest a rate, and stop."
    ),
    cloup.option("--callbacks", type=Text(), metavar=FUNCTION, help="Function that returns Keras callbacks."),
    cloup.option("--seed", type=SEED, metavar="N", help="Seed of the initial weights and the order of the images."),
)

DEVICES = cloup.option_group(
    "Devices",
    cloup.option("--replicas", type=Count(), metavar="N", help="Train on N CPU replicas, without GPUs."),
    cloup.option(
        "--all-reduce",
        type=click.Choice(["nccl", "hierarchical", "one_device"]),
        help="How gradients are summed over the replicas.  [default: TensorFlow's choice]",
    ),
    cloup.option("--split-over", type=Count(2), metavar="N", help="Split the recipe's model over N devices."),
    cloup.option("--mixed-precision", type=click.Choice(["bfloat16", "float16"]), help="Compute in 16 bits."),
    cloup.option("--recompute", is_flag=True, help="Recompute activations in the backward pass, to save memory."),
    cloup.option("--jit-compile", is_flag=True, help="Compile the step with XLA; one replica only."),
    cloup.option(
        "--steps-per-loop", type=Count(), metavar="N", default=1, show_default=True, help="Steps per compiled call."
    ),
)

CHECKPOINTS = cloup.option_group(
    "Checkpoints and evaluation",
    cloup.option(
        "--save-checkpoints-steps",
        type=Steps(),
        metavar="N",
        help="Steps between checkpoints.  [default: every 10 minutes]",
    ),
    cloup.option("--async-checkpoints", is_flag=True, help="Continue training while a checkpoint is written."),
    cloup.option("--evaluate-every", type=Steps(), metavar="STEPS", help="Steps between evaluations during training."),
    cloup.option("--early-stopping", type=Count(), metavar="N", help="Stop after N evaluations without a better loss."),
    cloup.option("--keep-best", is_flag=True, help="Keep the evaluated checkpoint with the best loss in export/."),
    cloup.option(
        "--monitor",
        type=Metric(),
        help="Metric for these two flags instead of the loss: accuracy, macro_f1, macro_roc_auc or any other.",
    ),
)

OUTPUT = cloup.option_group(
    "Output",
    cloup.option(
        "--config",
        type=Text(),
        metavar="FILE",
        shell_complete=completion.files,
        help="The run.json of a run to repeat; other flags override it.",
    ),
    cloup.option(
        "--trust-run",
        is_flag=True,
        help="Run the functions and write to the folders that an unknown run.json names.",
    ),
    cloup.option(
        "--log",
        type=Loggers(),
        metavar="NAME,NAME",
        help=f"Where to log metrics besides TensorBoard's events: {', '.join(loggers.NAMES)}.",
    ),
    cloup.option("--dry-run", is_flag=True, help="Print the plan and do nothing."),
    cloup.option("--quiet", is_flag=True, help="Show only errors and the final result."),
    cloup.option("--verbose", is_flag=True, help="Also show TensorFlow's INFO log."),
)
