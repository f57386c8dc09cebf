"""SavedModels converted to TFLite and ONNX, and what the converted models predict."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def to_tflite(saved_model_dir: str | os.PathLike[str], *, dynamic_range: bool = False) -> bytes:
    """Returns the default signature of a SavedModel as the content of a .tflite file, by `tf.lite.TFLiteConverter`.

    The signature must have no strings, so a SavedModel that is to be converted takes decoded images.

        content = et.conversion.to_tflite(estimator.export_saved_model("exported", receiver_fn))
        pathlib.Path("model.tflite").write_bytes(content)

    Args:
      dynamic_range: whether weights are stored in 8 bits, which makes the file a quarter as large:
        https://ai.google.dev/edge/litert/models/post_training_quant
    """
    converter = tf.lite.TFLiteConverter.from_saved_model(os.fsdecode(saved_model_dir), signature_keys=[_SIGNATURE])
    if dynamic_range:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return converter.convert()


def to_onnx(saved_model_dir: str | os.PathLike[str]) -> bytes:
    """Returns the default signature of a SavedModel as the content of an .onnx file, by tf2onnx.

        content = et.conversion.to_onnx(estimator.export_saved_model("exported", receiver_fn))
        pathlib.Path("model.onnx").write_bytes(content)

    Raises:
      ImportError: tf2onnx is not installed.
    """
    tf2onnx = importlib.import_module("tf2onnx")
    loaded = tf.saved_model.load(os.fsdecode(saved_model_dir))  # its variables live as long as it does
    signature = loaded.signatures[_SIGNATURE]
    specs = signature.structured_input_signature[1]

    @tf.function(autograph=False)
    def function(*inputs):
        return signature(**dict(zip(specs, inputs, strict=True)))

    proto, _ = tf2onnx.convert.from_function(function, input_signature=[*specs.values()])
    return proto.SerializeToString()


def run_tflite(content: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs of a TFLite model, by their names in the signature, for a batch of inputs by theirs.

    outputs = et.conversion.run_tflite(content, {"images": images})
    """
    with warnings.catch_warnings():
        # TensorFlow has announced the end of its interpreter since 2.18, and 2.21 has it.
        warnings.filterwarnings("ignore", message=r"\s*Warning: tf.lite.Interpreter is deprecated")
        interpreter = tf.lite.Interpreter(model_content=content)
    return interpreter.get_signature_runner(_SIGNATURE)(**inputs)


def run_onnx(content: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs of an ONNX model, by their names, for a batch of inputs by theirs, on the CPU.

        outputs = et.conversion.run_onnx(content, {"images": images})

    Raises:
      ImportError: onnxruntime is not installed.
    """
    onnxruntime = importlib.import_module("onnxruntime")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))
