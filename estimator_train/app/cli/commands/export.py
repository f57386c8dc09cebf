"""estimator_train export: writes the trained model of a run in a format for deployment."""

from __future__ import annotations

from pathlib import Path

import click

from estimator_train._engine.host.packages import check_installed
from estimator_train._engine.host.paths import is_remote
from estimator_train.app.cli.directories import check_directory
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.parameters import Directory
from estimator_train.app.cli.run_file import data_of_run, settings_of_run
from estimator_train.app.cli.run_options import checkpoint_prefix, run_options
from estimator_train.app.cli.startup import starting_tensorflow

# Names in the --out directory; "" is the directory itself. Keras 3 accepts weights only as .weights.h5.
_FILES = {
    "saved_model": [""],
    "keras": ["model.keras"],
    "weights": ["weights.h5", "model.weights.h5"],
    "tflite": ["model.tflite"],
    "tflite_dynamic_range": ["model_dynamic_range.tflite"],
    "onnx": ["model.onnx"],
}
_CONVERTED = ("tflite", "tflite_dynamic_range", "onnx")  # compared with predict on the run's data

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
    type=click.Choice(list(_FILES)),
    required=True,
    help="A SavedModel; the whole Keras model as DIR/model.keras; its weights as DIR/weights.h5, of Keras 3 as "
    "DIR/model.weights.h5; TFLite as DIR/model.tflite, with weights in 8 bits as DIR/model_dynamic_range.tflite; ONNX "
    "as DIR/model.onnx.",
)
@click.option(
    "--out",
    type=Directory("DIR"),
    required=True,
    help="Directory to write to; a SavedModel becomes this directory.",
)
def export(model_dir, checkpoint, trust_run, file_format, out):
    """Export the trained model of a run.

    The SavedModel of a run on images takes encoded JPEG, PNG, BMP, GIF or WebP files as image_bytes; its
    signature images:serving_default takes decoded images, float32 RGB in [0, 1], as TFLite and ONNX files do. Those are
    written only if they match predict on a batch of the run's evaluation data.
    """
    settings = settings_of_run(model_dir, trust_run)
    checkpoint = checkpoint_prefix(model_dir, checkpoint)
    if is_remote(out):
        raise click.ClickException(f"--out {out}: give a folder on this machine, and copy the files from there")
    check_directory(out, "--out")
    if file_format == "onnx":
        with one_line_errors():
            for module in ("tf2onnx", "onnxruntime"):
                check_installed(module, "tf2onnx onnxruntime")
    data = data_of_run(settings, model_dir) if file_format in _CONVERTED else None
    targets = [Path(out, name) for name in _FILES[file_format]]
    for target in targets:
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            raise click.ClickException(f"--out {out}: {target} already exists; remove it, or give another folder")

    with starting_tensorflow():
        from estimator_train.app.cli.run import build, export

    (checkpoint,) = build.checkpoint_paths(model_dir, checkpoint)
    with one_line_errors():
        targets[0].parent.mkdir(parents=True, exist_ok=True)
        if file_format in _CONVERTED:
            note = export.convert(settings, data, model_dir, checkpoint, file_format, targets[0])
            click.echo(f"exported {checkpoint} as {targets[0]}; {note}")
            return
        target = export.export(settings, model_dir, checkpoint, file_format, targets)
    click.echo(f"exported {checkpoint} as {target}")
