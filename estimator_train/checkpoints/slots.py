"""Slots of an optimizer, such as Adam's momenta, where other variables are trained than when they were saved.

An optimizer of tf_keras saves its variables as a list, in the order of the variables that it trains. Once layers are
frozen or unfrozen, the same places in that list belong to other variables. The names in the checkpoint tell which.
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
    """Builds `optimizer` with the slots in the checkpoint at prefix `path` if these are of other variables than now.

    A variable that has none in the checkpoint begins with those of a new optimizer. If the variables are the same, and
    in the same order, nothing is done: the slots get their values as they are made.

    Args:
      optimizer: of a model that the checkpoint has just been restored to. Only new ones of tf_keras are looked at.
      trained: the model's trainable variables by their keys in checkpoints, in their order.
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
        "The optimizer begins anew for %d variables, which the checkpoint %s has no state of.",
        *(len(trained.keys() - slots.keys()), path),
    )


def _saved_slots(path):
    """By the keys of the weights in the checkpoint at `path`: dicts of the names of slots to the slots' keys.

    They are in the order of the optimizer's list. Empty if names do not tell.
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
