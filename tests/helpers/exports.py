"""Placeholders, receivers and names of signatures, in the default graph."""

import tensorflow as tf

from estimator_train import export

v1 = tf.compat.v1


def floats(name=None):
    return v1.placeholder(tf.float32, [None], name=name)


def names(tensor_infos):
    return {key: info.name for key, info in tensor_infos.items()}


def parsing_receiver(**alternatives):
    receiver = export.build_parsing_serving_input_receiver_fn({"x": tf.io.FixedLenFeature([], tf.float32)})()
    alternatives = {name: make(receiver.features["x"]) for name, make in alternatives.items()}
    return export.ServingInputReceiver(receiver.features, receiver.receiver_tensors, alternatives or None)
