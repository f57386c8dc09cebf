"""The formats of an exported model, and the files that each becomes, before TensorFlow is imported."""

import os
from pathlib import Path
from typing import NamedTuple

from estimator_train._engine.host.packages import check_installed
from estimator_train._engine.host.paths import is_remote
from estimator_train.app.errors import SettingError, one_line_errors
from estimator_train.app.running.directories import check_directory


def _of_tflite(stem):
    return [f"{stem}.tflite", f"{stem}.labels.txt", f"{stem}.metadata.json"]


WEIGHTS_FILES = {"tf_keras": "weights.h5", "keras": "model.weights.h5"}  # Keras 3 takes no other ending
# Names in the directory.
_FILES = {
    "keras": ["model.keras"],
    "weights": [*WEIGHTS_FILES.values()],
    "tflite": _of_tflite("model"),
    "tflite_float16": _of_tflite("model_float16"),
    "tflite_dynamic_range": _of_tflite("model_dynamic_range"),
    "tflite_int8": _of_tflite("model_int8"),
    "onnx": ["model.onnx"],
}
CONVERTED = [name for name in _FILES if name.startswith(("tflite", "onnx"))]  # these are compared with predict
FORMATS = ("saved_model", *_FILES)


class Exported(NamedTuple):
    """A model that has been exported."""

    checkpoint: str  # path prefix
    path: str
    note: str | None  # how it compares with predict


def check_out(out: str, file_format: str) -> list[Path]:
    """Returns the paths that a file of that format may get in `out`; raises SettingError if one exists already."""
    if file_format not in FORMATS:
        raise SettingError("{format} {0}: give one of {1}", file_format, ", ".join(FORMATS))
    if is_remote(out):
        raise SettingError("{out} {0}: give a folder on this machine, and copy the files from there", out)
    check_directory(out, "out")
    if file_format == "onnx":
        with one_line_errors():
            for module in ("tf2onnx", "onnxruntime"):
                check_installed(module, "tf2onnx onnxruntime")
    targets = [Path(out, name) for name in _FILES.get(file_format, ())]
    for target in targets:
        if os.path.lexists(target):
            raise SettingError("{out} {0}: {1} already exists; remove it, or give another folder", out, target)
    return targets
