"""Writes SavedModels of Keras models with the signatures of any input receiver."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from estimator_train._engine.checkpoints import object_based
from estimator_train._engine.exports.outputs import ExportOutput
from estimator_train._engine.exports.receivers import ReceiverFn
from estimator_train._engine.exports.signatures import signatures
from estimator_train._engine.types import Nest

log = tf.get_logger()

Serve: TypeAlias = Callable[[Nest], dict[str, ExportOutput]]  # from a batch of features to outputs by signature name


def write_saved_model(model_root: object, serve: Serve, receiver_fn: ReceiverFn, directory: str, as_text: bool) -> None:
    """Writes a SavedModel with all variables and tables of `model_root`; `receiver_fn` may use v1 placeholders."""
    defs = {}

    def build() -> dict:
        receiver = receiver_fn()
        defs.update(signatures(receiver, serve(receiver.features)))
        return {}

    wrapped = tf.compat.v1.wrap_function(build, [])
    root = tf.Module()
    # Not the model itself, all of whose layers Keras would trace; nor does it list metrics that Keras 3 layers update.
    kinds = (tf.Variable, tf.saved_model.experimental.TrackableResource, tf.saved_model.Asset)
    parts = [part for part in object_based.parts_by_key(model_root).values() if isinstance(part, kinds)]
    root.parts = [*parts, *wrapped.graph.variables]
    functions = {key: _function(wrapped, signature) for key, signature in defs.items()}
    with object_based.root_logger_left_alone():
        _save(root, directory, functions)
    _edit(directory, {key: signature.method_name for key, signature in defs.items()}, as_text)


def _save(root: object, directory: str, functions: dict[str, tf.types.experimental.ConcreteFunction]) -> None:
    """Saves `root`, with its custom gradients if TensorFlow can save them; serving does not need them."""
    try:
        tf.saved_model.save(root, directory, signatures=functions)
    except ValueError as error:
        if "gradient" not in str(error):
            raise
        log.warning("The SavedModel cannot be trained further, only served: %s", str(error).partition("\n")[0])
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        tf.saved_model.save(root, directory, signatures=functions, options=options)


def _function(wrapped: Any, signature: SignatureDef) -> tf.types.experimental.ConcreteFunction:
    def tensors(infos: Mapping[str, TensorInfo]) -> dict[str, tf.Tensor]:
        return {name: wrapped.graph.get_tensor_by_name(info.name) for name, info in infos.items()}

    inputs = tensors(signature.inputs)
    pruned = wrapped.prune(feeds=list(inputs.values()), fetches=tensors(signature.outputs))

    @tf.function(autograph=False)
    def function(**fed: tf.Tensor) -> Nest:
        return pruned(*(fed[name] for name in inputs))

    specs = {name: tf.TensorSpec(tensor.shape, tensor.dtype, name) for name, tensor in inputs.items()}
    return function.get_concrete_function(**specs)


def _edit(directory: str, methods: dict[str, str], as_text: bool) -> None:
    """Sets the method names of the signatures, because TensorFlow saves all of them as Predict signatures."""
    path = os.path.join(directory, "saved_model.pb")
    with tf.io.gfile.GFile(path, "rb") as file:
        saved_model = SavedModel.FromString(file.read())
    for key, method in methods.items():
        saved_model.meta_graphs[0].signature_def[key].method_name = method
    content = saved_model.SerializeToString()
    if as_text:
        tf.io.gfile.remove(path)
        path, content = f"{path}txt", text_format.MessageToString(saved_model).encode()
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content)
