"""estimator_train export: writes the trained model of a run in a format for deployment."""

import os
import shlex

import click

from estimator_train._engine.host.files import printable
from estimator_train.app.cli.parameters import Value
from estimator_train.app.cli.run_options import run_options
from estimator_train.app.running.exporting import FORMATS
from estimator_train.app.running.run import Run
from estimator_train.app.runs.values import Choice, Directory

_EXAMPLES = """\b
Examples:
  estimator_train export --model-dir runs/oct2017 --format saved_model --out DIR
  estimator_train export --model-dir runs/oct2017 --format keras --out DIR
  estimator_train export --model-dir runs/oct2017 --format tflite --out DIR
"""


@click.command(epilog=_EXAMPLES)
@run_options
@click.option(
    "--format",
    "file_format",
    type=Value(Choice(FORMATS)),
    required=True,
    help="A SavedModel in a new version directory of DIR; the whole Keras model as DIR/model.keras; its weights as "
    "DIR/weights.h5, of Keras 3 as DIR/model.weights.h5; TFLite as DIR/model.tflite, with weights in 16 or 8 bits as "
    "DIR/model_float16.tflite or DIR/model_dynamic_range.tflite, computing in 8 bits as DIR/model_int8.tflite; ONNX as "
    "DIR/model.onnx.",
)
@click.option(
    "--out",
    type=Value(Directory("DIR")),
    required=True,
    help="Directory to write to. A SavedModel becomes a version in it, as TensorFlow Serving needs it.",
)
def export(model_dir: str, checkpoint: str | None, trust_run: bool, file_format: str, out: str) -> None:
    """Export the trained model of a run.

    The SavedModel of a run on images takes encoded JPEG, PNG, BMP, GIF or WebP files as image_bytes; its
    signature images:serving_default takes decoded images, float32 RGB in [0, 1], as TFLite and ONNX files do. A TFLite
    or ONNX file in float32 is written only if it matches predict on a batch of the run's evaluation data. For TFLite in
    fewer bits, the last line gives its accuracy on evaluation images and the model's own. Class names and image size
    are in assets.extra of a SavedModel, beside a TFLite file, and in the metadata of an ONNX file.
    """
    exported = Run(model_dir, trust_run=trust_run).exported(file_format, out, checkpoint)
    click.echo(
        f"exported {printable(exported.checkpoint)} as {'; '.join(filter(None, (exported.path, exported.note)))}"
    )
    if file_format == "saved_model":
        click.echo(f"serve it: {_docker(out)}")


def _docker(base: str) -> str:
    """Returns the command that serves the newest version in `base` on this machine, as the model called model."""
    volume = shlex.quote(f"{os.path.abspath(base)}:/models/model")
    return f"docker run --rm -p 127.0.0.1:8501:8501 -v {volume} tensorflow/serving"
