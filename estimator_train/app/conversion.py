"""Converts SavedModels to TFLite and ONNX, and runs the converted models."""

import contextlib
import functools
import importlib
import os
import warnings
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from estimator_train._engine.host.paths import StrPath

QUANTIZATIONS = ("float16", "dynamic_range", "int8")

_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def to_tflite(
    saved_model_dir: StrPath,
    *,
    quantization: str | None = None,
    calibration: Iterable[Mapping[str, np.ndarray]] | None = None,
) -> bytes:
    """Converts the default signature of a SavedModel with `tf.lite.TFLiteConverter`.

    Returns the content of a .tflite file. The signature must not take strings: export the SavedModel with decoded
    images as its input.

        content = et.conversion.to_tflite(estimator.export_saved_model("exported", receiver_fn))
        pathlib.Path("model.tflite").write_bytes(content)

    Args:
      quantization: None keeps the weights in float32. "float16" stores them in 16 bits, "dynamic_range" in 8 bits;
        "int8" also computes in 8 bits, where TFLite has such an operation. Inputs and outputs keep their dtypes:
        https://ai.google.dev/edge/litert/models/post_training_quantization
      calibration: for "int8", batches of inputs, all of the same shape, in the form that `run_tflite` takes. They
        determine the ranges of activations, for which a hundred examples of the training data are enough.

    Raises:
      ValueError: `quantization` is unknown, or `calibration` is missing for "int8", or given for another.
    """
    if quantization not in (None, *QUANTIZATIONS):
        raise ValueError(f"quantization must be None or one of {', '.join(QUANTIZATIONS)}, got {quantization!r}")
    if (quantization == "int8") != (calibration is not None):
        raise ValueError('calibration is for quantization="int8", which needs it')
    converter = tf.lite.TFLiteConverter.from_saved_model(os.fsdecode(saved_model_dir), signature_keys=[_SIGNATURE])
    if quantization is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantization == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if calibration is not None:
        converter.representative_dataset = functools.partial(map, dict, calibration)
    with _without_deprecation():
        return converter.convert()


@contextlib.contextmanager
def _without_deprecation():
    """Hides that TensorFlow has deprecated its interpreter since 2.18: 2.21 still has it, and calibrates with it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*Warning: tf.lite.Interpreter is deprecated")
        yield


def to_onnx(saved_model_dir: StrPath, *, metadata: Mapping[str, str] | None = None) -> bytes:
    """Converts the default signature of a SavedModel with tf2onnx, and returns the content of an .onnx file.

        content = et.conversion.to_onnx(estimator.export_saved_model("exported", receiver_fn))
        pathlib.Path("model.onnx").write_bytes(content)

    The file has the `metadata`, which onnxruntime returns as `custom_metadata_map`. Raises ImportError without tf2onnx.
    """
    tf2onnx = importlib.import_module("tf2onnx")
    loaded = tf.saved_model.load(os.fsdecode(saved_model_dir))  # keep it: its variables are freed with it
    signature = loaded.signatures[_SIGNATURE]
    specs = signature.structured_input_signature[1]

    @tf.function(autograph=False)
    def function(*inputs):
        return signature(**dict(zip(specs, inputs, strict=True)))

    proto, _ = tf2onnx.convert.from_function(function, input_signature=[*specs.values()])
    for value in (*proto.graph.input, *proto.graph.output):
        dimensions = value.type.tensor_type.shape.dim
        if dimensions and dimensions[0].dim_param:  # tf2onnx calls it unk__40, for example
            dimensions[0].dim_param = "batch"
    for key, text in (metadata or {}).items():
        proto.metadata_props.add(key=key, value=text)
    return proto.SerializeToString()


def run_tflite(content: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs a TFLite model on one batch; inputs and outputs are dicts keyed by their names in the signature.

        outputs = et.conversion.run_tflite(content, {"images": images})

    Inputs must have the dtypes of the signature.
    """
    with _without_deprecation():
        interpreter = tf.lite.Interpreter(model_content=content)
    return interpreter.get_signature_runner(_SIGNATURE)(**inputs)


def run_onnx(content: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs an ONNX model on one batch, on the CPU; inputs and outputs are dicts keyed by name.

        outputs = et.conversion.run_onnx(content, {"images": images})

    Raises ImportError without onnxruntime.
    """
    onnxruntime = importlib.import_module("onnxruntime")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))
