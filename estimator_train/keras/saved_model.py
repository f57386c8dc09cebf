"""SavedModels of Keras models, with the signatures of any input receiver."""

from __future__ import annotations

import os

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

from estimator_train.checkpoints import object_based
from estimator_train.export import signatures

v1 = tf.compat.v1


def write_saved_model(model_root, serve, receiver_fn, directory, as_text):
    """Writes a SavedModel of a Keras model into `directory`.

    Args:
      model_root: the trackable object with all of the model's variables and tables.
      serve: function of the receiver's features that gives a dict of `export.ExportOutput` by signature.
      receiver_fn: function without arguments that gives an `export.ServingInputReceiver`; it may use v1 placeholders.
      as_text: whether saved_model.pbtxt is written instead of saved_model.pb.
    """
    defs = {}

    def build():
        receiver = receiver_fn()
        defs.update(signatures(receiver, serve(receiver.features)))
        return {}

    wrapped = v1.wrap_function(build, [])
    root = tf.Module()
    root.parts = _variables_and_resources(model_root)  # not the model: Keras would trace all of its layers, too
    functions = {key: _function(wrapped, signature) for key, signature in defs.items()}
    with object_based.root_logger_left_alone():
        tf.saved_model.save(root, directory, signatures=functions)
    _edit(directory, {key: signature.method_name for key, signature in defs.items()}, as_text)


def _function(wrapped, signature):
    """The concrete function of a SignatureDef in the graph of `wrapped`, with the signature's names."""

    def tensors(infos):
        return {name: wrapped.graph.get_tensor_by_name(info.name) for name, info in infos.items()}

    inputs = tensors(signature.inputs)
    pruned = wrapped.prune(feeds=list(inputs.values()), fetches=tensors(signature.outputs))

    @tf.function(autograph=False)
    def function(**fed):
        return pruned(*(fed[name] for name in inputs))

    specs = {name: tf.TensorSpec(tensor.shape, tensor.dtype, name) for name, tensor in inputs.items()}
    return function.get_concrete_function(**specs)


def _variables_and_resources(root):
    """The variables, tables and files that a SavedModel needs from the model saved from `root`."""
    kinds = (tf.Variable, tf.saved_model.experimental.TrackableResource, tf.saved_model.Asset)
    return [part for part in object_based.parts_by_key(root).values() if isinstance(part, kinds)]


def _edit(directory, methods, as_text):
    """Writes the methods of the signatures, for TensorFlow saves all as those of the Predict API."""
    path = os.path.join(directory, "saved_model.pb")
    with tf.io.gfile.GFile(path, "rb") as file:
        saved_model = saved_model_pb2.SavedModel.FromString(file.read())
    for key, method in methods.items():
        saved_model.meta_graphs[0].signature_def[key].method_name = method
    if as_text:
        tf.io.gfile.remove(path)
        with tf.io.gfile.GFile(f"{path}txt", "w") as file:
            file.write(text_format.MessageToString(saved_model))
    else:
        with tf.io.gfile.GFile(path, "wb") as file:
            file.write(saved_model.SerializeToString())
