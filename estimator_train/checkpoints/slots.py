"""Restores optimizer slots, such as Adam's moments, when the set of trainable variables has changed since saving.

A tf_keras optimizer saves its variables as a list, in the order of the variables that it trains. After layers have been
frozen or unfrozen, the positions in that list belong to other variables. The names in the checkpoint identify them.
"""

from __future__ import annotations

import re

import tensorflow as tf
import tf_keras as keras
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from estimator_train.checkpoints import reader_of
from estimator_train.session import private_names

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_PLACE = re.compile(r"optimizer/(?:.*/)?_variables/(\d+)")

log = tf.get_logger()


def follow_trained_variables(optimizer, trained, path):
    """Builds `optimizer` and restores its slots from the checkpoint at prefix `path` by the names of their variables.

    A variable without slots in the checkpoint starts with new ones. If the trained variables and their order are
    unchanged, this does nothing, because the slots get their values when they are created.

    Args:
      optimizer: the optimizer of a model that was just restored from the checkpoint. Anything but a non-legacy tf_keras
        optimizer is ignored.
      trained: the model's trainable variables by their keys in checkpoints, in the model's order.
      path: path prefix of the checkpoint.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        return
    slots = _saved_slots(path)
    if not slots or list(slots) == list(trained):
        return
    private_names.forget_values_to_come(optimizer)
    optimizer.build(list(trained.values()))
    reader = reader_of(path)
    ours = {variable.name.removesuffix(":0"): variable for variable in optimizer.variables}
    for key in slots.keys() & trained.keys():
        for slot, saved_key in slots[key].items():
            ours[f"{slot}/{trained[key].name.removesuffix(':0')}"].assign(reader.get_tensor(saved_key + _VALUE))
    log.info(
        "The optimizer starts without state for %d variables that checkpoint %s has no state for.",
        *(len(trained.keys() - slots.keys()), path),
    )


def _saved_slots(path):
    """Returns a dict from the keys of weights in the checkpoint at `path` to dicts of slot names to slot keys.

    It is in the order of the optimizer's list, and empty if the names do not identify the weights.
    """
    graph = TrackableObjectGraph.FromString(reader_of(path).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
    attributes = [attribute for node in graph.nodes for attribute in node.attributes]
    names = {each.checkpoint_key.removesuffix(_VALUE): each.full_name for each in attributes if each.full_name}
    weights = {name: key for key, name in names.items() if not key.startswith("optimizer/")}
    places = {int(place[1]): key for key in names if (place := _PLACE.fullmatch(key))}
    slots = {}
    for _, key in sorted(places.items()):
        slot, _, weight = names[key].partition("/")
        if weight in weights:
            slots.setdefault(weights[weight], {})[slot] = key
    return slots
