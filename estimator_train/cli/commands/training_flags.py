"""The flags of `train`, in the groups of its help."""

from __future__ import annotations

import click
import cloup

from estimator_train import datasets, loggers, models, recipes
from estimator_train.cli import completion
from estimator_train.cli.parameters import SEED, Count, ImageSize, Loggers, Steps, Text

FUNCTION = "FILE:FUNCTION"

MOST_USED = cloup.option_group(
    "What is turned most",
    cloup.option(
        "--dataset",
        type=Text(),
        metavar="NAME",
        shell_complete=completion.names(datasets.names),
        help=f"{', '.join(datasets.NAMES)} or tfds:NAME.  [default: {datasets.NAMES[0]}]",
    ),
    cloup.option(
        "--data-dir",
        type=Text(),
        metavar="FOLDER",
        shell_complete=completion.folders,
        help="Folder of the dataset's files.",
    ),
    cloup.option(
        "--model",
        type=Text(),
        shell_complete=completion.names(lambda: models.NAMES),
        help=f"{', '.join(models.NAMES)}, or {FUNCTION} that returns a compiled Keras model.",
    ),
    cloup.option(
        "--epochs",
        type=Count(),
        metavar="N",
        help="How often to go through the data.  [default: the dataset's own]",
    ),
    cloup.option(
        "--batch-size",
        type=Count(),
        metavar="N",
        help="Images a step on each replica.  [default: the dataset's own]",
    ),
    cloup.option("--gpus", type=Count(), metavar="N", help="Train on the first N GPUs."),
    cloup.option(
        "--model-dir",
        type=Text(),
        metavar="FOLDER",
        shell_complete=completion.folders,
        help="Where checkpoints and events go.  [default: runs/DATASET]",
    ),
    cloup.option("--resume", is_flag=True, help="Go on with the run in --model-dir; where there is none, start it."),
)

DATA = cloup.option_group(
    "Data",
    cloup.option("--image-size", type=ImageSize(), help="Side of the images in pixels, or height x width."),
    cloup.option("--limit", type=Count(2), metavar="N", help="Take so many images, of each class its share."),
    cloup.option("--split", type=click.Choice(["patient"]), help="Evaluate on patients that are not trained on."),
    cloup.option(
        "--cache",
        type=Text(),
        metavar="memory|features|FOLDER",
        shell_complete=completion.folders,
        help="Keep decoded images in memory or in a folder; or what the model's frozen layers make of them.",
    ),
    cloup.option("--fast", is_flag=True, help="Have the JPEG decoder scale large images down; the values differ."),
    cloup.option("--input-fn", type=Text(), metavar=FUNCTION, help="Your own training input_fn, instead of a dataset."),
    cloup.option("--eval-input-fn", type=Text(), metavar=FUNCTION, help="Your own evaluation input_fn."),
)

MODEL = cloup.option_group(
    "Model",
    cloup.option(
        "--weights",
        type=Text(),
        metavar="FILE",
        shell_complete=completion.files,
        help="Weights to start from: a file, imagenet or none.",
    ),
    cloup.option(
        "--recipe",
        type=Text(),
        metavar="NAME",
        shell_complete=completion.names(lambda: recipes.NAMES),
        help="A whole system instead of a dataset and a model: see estimator_train recipes.",
    ),
    cloup.option("--filters", type=Count(), metavar="N", help="Of the first convolution of the recipe's model."),
    cloup.option("--volume", type=Count(), metavar="N", help="Side of the recipe's volumes in voxels."),
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
        help="Batches of each replica that make one update, a step.",
    ),
    cloup.option("--callbacks", type=Text(), metavar=FUNCTION, help="A function that returns Keras callbacks."),
    cloup.option("--seed", type=SEED, metavar="N", help="Seed of the initial weights and the order of the images."),
)

DEVICES = cloup.option_group(
    "Devices",
    cloup.option("--replicas", type=Count(), metavar="N", help="Train on N CPU replicas, where there is no GPU."),
    cloup.option(
        "--all-reduce",
        type=click.Choice(["nccl", "hierarchical", "one_device"]),
        help="How gradients are summed over the replicas.  [default: as TensorFlow chooses]",
    ),
    cloup.option("--split-over", type=Count(2), metavar="N", help="Split the recipe's model over N devices."),
    cloup.option("--mixed-precision", type=click.Choice(["bfloat16", "float16"]), help="Compute in 16 bits."),
    cloup.option(
        "--recompute", is_flag=True, help="Compute activations again in the backward pass; takes less memory."
    ),
    cloup.option("--jit-compile", is_flag=True, help="Compile the step with XLA; for one replica."),
    cloup.option(
        "--steps-per-loop", type=Count(), metavar="N", default=1, show_default=True, help="Steps a compiled call."
    ),
)

CHECKPOINTS = cloup.option_group(
    "Checkpoints and evaluation",
    cloup.option(
        "--save-checkpoints-steps",
        type=Steps(),
        metavar="N",
        help="Steps between checkpoints.  [default: 10 minutes]",
    ),
    cloup.option("--async-checkpoints", is_flag=True, help="Train on while a checkpoint is written."),
    cloup.option("--evaluate-every", type=Steps(), metavar="STEPS", help="Steps between evaluations on the way."),
    cloup.option("--early-stopping", type=Count(), metavar="N", help="Stop after N evaluations without a lower loss."),
    cloup.option("--keep-best", is_flag=True, help="Keep the evaluated checkpoint of the lowest loss in export/."),
)

OUTPUT = cloup.option_group(
    "Output",
    cloup.option(
        "--config",
        type=Text(),
        metavar="FILE",
        shell_complete=completion.files,
        help="The run.json of a run to repeat; flags given win over it.",
    ),
    cloup.option(
        "--log",
        type=Loggers(),
        metavar="NAME,NAME",
        help=f"Where metrics go beside TensorBoard's events: {', '.join(loggers.NAMES)}.",
    ),
    cloup.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing."),
    cloup.option("--quiet", is_flag=True, help="Show errors and the last result only."),
    cloup.option("--verbose", is_flag=True, help="Show TensorFlow's log from INFO on, too."),
)
