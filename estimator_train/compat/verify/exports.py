"""Asks exported models for predictions of inputs that are made up."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

_SIZE = 4  # of dimensions that a signature leaves open
_LISTS = {tf.float32: "float_list", tf.int64: "int64_list", tf.string: "bytes_list"}


def predictions(export: Path) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns what a SavedModel's signatures give for the same inputs each time, arrays by "signature: output".

    Also returns a line for each signature that refuses the inputs, or one if there is no model to serve.
    """
    outputs, refusals = {}, []
    with tf.Graph().as_default() as graph, v1.Session() as session:
        try:
            signatures = v1.saved_model.load(session, [v1.saved_model.SERVING], str(export)).signature_def
        except (OSError, RuntimeError) as error:  # such as one for training alone
            return {}, [str(error).splitlines()[0]]
        for name, signature in sorted(signatures.items()):
            if not signature.inputs:  # it initializes variables
                continue
            fetches = {f"{name}: {key}": info.name for key, info in sorted(signature.outputs.items())}
            try:
                feed = {info.name: _drawn(key, info, graph) for key, info in signature.inputs.items()}
                outputs |= session.run(fetches, feed)
            except (tf.errors.OpError, TypeError, ValueError) as error:
                refusals.append(f"{name}: {str(error).splitlines()[0]}")
    return outputs, refusals


def _drawn(key: str, info: Any, graph: tf.Graph) -> np.ndarray:
    shape = _shape(info.tensor_shape)
    for operation in graph.get_tensor_by_name(info.name).consumers():
        if operation.type.startswith("ParseExample"):
            return np.full(shape, _example(operation).SerializeToString())
    return _values(key, shape, tf.as_dtype(info.dtype))


def _shape(shape: Any) -> list[int]:
    if shape.unknown_rank:
        return [_SIZE]
    return [_SIZE if dim.size < 0 else dim.size for dim in shape.dim]


def _values(key: str, shape: Sequence[int], dtype: tf.DType) -> np.ndarray:
    """Returns values that depend on the key and the shape alone."""
    random = np.random.default_rng(zlib.crc32(key.encode()))
    if dtype == tf.string:
        return np.full(shape, b"a", object)
    if dtype.is_floating:
        return random.normal(size=shape).astype(dtype.as_numpy_dtype)
    return random.integers(2, size=shape).astype(dtype.as_numpy_dtype)  # in any vocabulary


def _example(operation: tf.Operation) -> tf.train.Example:
    """Returns an example with the features that an operation parses."""
    sparse, dense = _keys(operation)
    shapes = [[_SIZE]] * len(sparse) + list(map(_shape, operation.get_attr("dense_shapes")))
    dtypes = [*operation.get_attr("sparse_types"), *operation.get_attr("Tdense")]
    example = tf.train.Example()
    for key, shape, dtype in zip(map(bytes.decode, [*sparse, *dense]), shapes, dtypes, strict=True):
        values = _values(key, shape, dtype).ravel()
        getattr(example.features.feature[key], _LISTS[dtype]).value.extend(values)
    return example


def _keys(operation: tf.Operation) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Returns the names of the sparse and of the dense features that an operation parses."""
    if operation.type == "ParseExampleV2":
        sparse, dense = map(tf.get_static_value, operation.inputs[2:4])
        return sparse, dense
    # That of TensorFlow 1 has a tensor for each key.
    ends = np.cumsum([2, operation.get_attr("Nsparse"), operation.get_attr("Ndense")])
    keys = [np.asarray(tf.get_static_value(key)).item() for key in operation.inputs[2 : ends[2]]]
    return keys[: ends[1] - 2], keys[ends[1] - 2 :]
