"""estimator_train export: writes the trained model of a run in a format for deployment."""

import os
import shlex
from pathlib import Path

import click

from estimator_train._engine.host.files import printable
from estimator_train._engine.host.packages import check_installed
from estimator_train._engine.host.paths import is_remote
from estimator_train.app.cli.parameters import Value
from estimator_train.app.cli.run_options import run_options
from estimator_train.app.errors import SettingError, one_line_errors
from estimator_train.app.running.directories import check_directory
from estimator_train.app.running.opened_run import data_of_run, open_run
from estimator_train.app.running.selected_checkpoint import checkpoint_prefix
from estimator_train.app.running.startup import starting_tensorflow
from estimator_train.app.runs.values import Directory


def _of_tflite(stem):
    return [f"{stem}.tflite", f"{stem}.labels.txt", f"{stem}.metadata.json"]


# Names in the --out directory. Keras 3 accepts weights only as .weights.h5.
_FILES = {
    "keras": ["model.keras"],
    "weights": ["weights.h5", "model.weights.h5"],
    "tflite": _of_tflite("model"),
    "tflite_float16": _of_tflite("model_float16"),
    "tflite_dynamic_range": _of_tflite("model_dynamic_range"),
    "tflite_int8": _of_tflite("model_int8"),
    "onnx": ["model.onnx"],
}
_CONVERTED = [name for name in _FILES if name.startswith(("tflite", "onnx"))]  # these are compared with predict

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
    type=click.Choice(["saved_model", *_FILES]),
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
def export(model_dir, checkpoint, trust_run, file_format, out):
    """Export the trained model of a run.

    The SavedModel of a run on images takes encoded JPEG, PNG, BMP, GIF or WebP files as image_bytes; its
    signature images:serving_default takes decoded images, float32 RGB in [0, 1], as TFLite and ONNX files do. A TFLite
    or ONNX file in float32 is written only if it matches predict on a batch of the run's evaluation data. For TFLite in
    fewer bits, the last line gives its accuracy on evaluation images and the model's own. Class names and image size
    are in assets.extra of a SavedModel, beside a TFLite file, and in the metadata of an ONNX file.
    """
    run, settings = open_run(model_dir, trust_run)
    checkpoint = checkpoint_prefix(run, checkpoint)
    _check_out(out, file_format)
    data = None
    if file_format in _CONVERTED:
        data = data_of_run(run, settings, trust_run)
    targets = _targets(out, file_format)

    with starting_tensorflow():
        from estimator_train.app.running import build, export

    (checkpoint,) = build.checkpoint_paths(run, checkpoint)
    exported = f"exported {printable(checkpoint)}"
    with one_line_errors(), export.without_lines_of_libraries():
        if file_format == "saved_model":
            click.echo(f"{exported} as {export.export_saved_model(settings, model_dir, checkpoint, out)}")
            click.echo(f"serve it: {_docker(out)}")
            return
        os.makedirs(out, exist_ok=True)
        if file_format in _CONVERTED:
            note = export.convert(settings, data, model_dir, checkpoint, file_format, targets[0])
            click.echo(f"{exported} as {targets[0]}; {note}")
            return
        target = export.export_keras(settings, run.spec.training, checkpoint, file_format, targets)
    click.echo(f"{exported} as {target}")


def _check_out(out, file_format):
    if is_remote(out):
        raise SettingError("{out} {0}: give a folder on this machine, and copy the files from there", out)
    check_directory(out, "out")
    if file_format == "onnx":
        with one_line_errors():
            for module in ("tf2onnx", "onnxruntime"):
                check_installed(module, "tf2onnx onnxruntime")


def _targets(out, file_format):
    """Returns the paths that a file of that format may get in `out`, none of which may exist."""
    targets = [Path(out, name) for name in _FILES.get(file_format, ())]
    for target in targets:
        if os.path.lexists(target):
            raise SettingError("{out} {0}: {1} already exists; remove it, or give another folder", out, target)
    return targets


def _docker(base):
    """Returns the command that serves the newest version in `base` on this machine, as the model called model."""
    volume = shlex.quote(f"{os.path.abspath(base)}:/models/model")
    return f"docker run --rm -p 127.0.0.1:8501:8501 -v {volume} tensorflow/serving"
