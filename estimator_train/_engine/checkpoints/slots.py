"""Tells which weights the variables in an optimizer's list belong to, in a checkpoint and in memory.

Keras' optimizers save their variables as a list, in the order of the weights that they train. After layers have been
frozen or unfrozen, the positions in that list belong to other weights. The variables' names identify the weights.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from estimator_train._engine.checkpoints import VALUE, CheckpointError, CheckpointReader, reader_of, variable_name
from estimator_train._engine.checkpoints.private_keras import listed_variables

# The keys of slots in checkpoints by (weight's key, slot's name), or by (None, position) if names do not identify them.
Slots = dict[tuple[Any, Any], str]

_Keys = dict[str, str | None]  # by name; None for a name that several variables have

AVERAGE = "average"  # the slot of a moving average, in both generations of Keras

_children = tf.train.TrackableView.children  # the trackable parts of an object, by name

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_PLACE = re.compile(r"(optimizer/(?:.*/)?)_variables/(\d+)")
_AVERAGE_NAME = re.compile(rf"(?:.*/)?{AVERAGE}/.*|.*_{AVERAGE}")


def saved(path: str) -> Slots:
    """Returns the slots in the checkpoint at prefix `path`, in the order of the optimizer's list."""
    return _by_weight(*_names_in(path))


def existing(parts: dict[str, Any], weights: dict[str, tf.Variable]) -> Slots:
    """Returns the slots that an optimizer has created; `parts` and `weights` are by their keys in checkpoints."""
    return _by_weight(
        {key: variable_name(parts[key]) for key in _in_order(parts)},
        {key: variable_name(weight) for key, weight in weights.items()},
    )


def averages(path: str, trained: Sequence[str]) -> dict[str, str]:
    """Returns the moving averages in the checkpoint at prefix `path`, a dict of weights' keys to averages' keys.

    If the names do not identify the weights, the order of `trained` does, the keys of those that the model trains, as
    far as they exist. Raises CheckpointError if the model trains another number of them then.
    """
    names, weights = _names_in(path)
    listed = {key: name for key, name in names.items() if _AVERAGE_NAME.fullmatch(name)}
    slots = _by_weight(listed, weights)
    if is_identified(slots):
        return {weight: key for (weight, _), key in slots.items()}
    if trained and len(listed) != len(trained):
        raise CheckpointError(
            f"Checkpoint {path} has moving averages of {len(listed)} weights, whose names do not tell which they are, "
            f"and the model trains {len(trained)}; freeze the same layers, or give each variable a name of its own."
        )
    return dict(zip(trained, listed, strict=False))


def is_identified(slots: Slots) -> bool:
    """Returns whether the names of `slots`, a result of `saved` or `existing`, identify their weights."""
    return all(weight is not None for weight, _ in slots)


def scaling_as_saved(root: Any, path: str) -> Any:
    """Returns a model's `root`, or a stand-in whose optimizer scales the loss where that at prefix `path` does."""
    parts = _children(root)
    optimizer = parts.get("optimizer")
    keys = reader_of(path).get_variable_to_shape_map()
    # A LossScaleOptimizer of Keras 3 has the optimizer as a part, and one of tf_keras has the parts of the optimizer.
    inner = optimizer and _children(optimizer).get("inner_optimizer")
    if not optimizer or bool(inner) == any(key.startswith("optimizer/inner_optimizer/") for key in keys):
        return root
    return _with_parts(parts | {"optimizer": inner or _with_parts({"inner_optimizer": optimizer})})


def without_slots(root: Any) -> tf.Module:
    """Returns a stand-in for the root of a model's checkpoint whose optimizer lacks the variables of the weights."""
    parts = _children(root)
    return _with_parts(parts | {"optimizer": _optimizer_without_slots(parts["optimizer"])})


def _optimizer_without_slots(optimizer: Any) -> tf.Module:
    parts = _children(optimizer)
    listed = listed_variables(parts)
    slots = set()
    if listed is not None:
        slots = set(map(id, _children(listed).values()))
    kept = {}
    for name, part in parts.items():
        if listed_variables(_children(part)) is not None:  # in a LossScaleOptimizer, or in a dict of several
            kept[name] = _optimizer_without_slots(part)
        elif slots.isdisjoint(map(id, _children(part).values())):
            kept[name] = part
    return _with_parts(kept)


def _with_parts(parts: dict[str, Any]) -> tf.Module:
    stand_in = tf.Module()
    for name, part in parts.items():
        setattr(stand_in, name, part)
    return stand_in


def variable_names(reader: CheckpointReader) -> dict[str, str]:
    """Returns the names of variables by their keys in a checkpoint of objects; of another, none."""
    if not reader.has_tensor(_OBJECT_GRAPH):
        return {}
    graph = TrackableObjectGraph.FromString(reader.get_tensor(_OBJECT_GRAPH))
    attributes = [attribute for node in graph.nodes for attribute in node.attributes]
    return {each.checkpoint_key: each.full_name for each in attributes if each.full_name}


def _names_in(path: str) -> tuple[dict[str, str], dict[str, str]]:
    """Returns two dicts of keys in a checkpoint to names: of the variables in the optimizer's list, and of others."""
    names = {key.removesuffix(VALUE): name for key, name in variable_names(reader_of(path)).items()}
    others = {key: name for key, name in names.items() if not key.startswith("optimizer/")}
    return {key: names[key] for key in _in_order(names)}, others


def _in_order(keys: Iterable[str]) -> list[str]:
    """Returns those of `keys` that are in the list of an optimizer, or of each of several, in its order."""
    places = [place for key in keys if (place := _PLACE.fullmatch(key))]
    optimizers = {place[1] for place in places}
    # In Keras 3, a LossScaleOptimizer has a list, too.
    inner = {each for each in optimizers if not any(other != each and other.startswith(each) for other in optimizers)}
    places = [place for place in places if place[1] in inner]
    return [place[0] for place in sorted(places, key=lambda place: (place[1], int(place[2])))]


def _by_weight(names: dict[str, str], weights: dict[str, str]) -> Slots:
    """Returns the slots of the variables `names`; `names` and `weights` are dicts of keys to names."""
    with_slashes, joined = {}, {}
    for key, name in weights.items():
        for known, spelling in ((with_slashes, name), (joined, name.replace("/", "_"))):
            known[spelling] = None if spelling in known else key
    slots = {}
    for key, name in names.items():
        weight, slot = _weight_and_slot(name, with_slashes, joined)
        if weight is None or (weight, slot) in slots:
            return {(None, position): key for position, key in enumerate(names)}
        slots[weight, slot] = key
    return slots


def _weight_and_slot(name: str, with_slashes: _Keys, joined: _Keys) -> tuple[str | None, str | None]:
    """Returns the key of a weight and the name of its slot, or (None, None)."""
    parts = name.split("/")  # scope/m/dense/kernel in tf_keras
    for start in range(1, len(parts)):
        weight = "/".join(parts[start:])
        if weight in with_slashes:
            return with_slashes[weight], parts[start - 1]
    words = parts[-1].split("_")  # scope/adam/dense_kernel_momentum in Keras 3
    for end in range(len(words) - 1, 0, -1):
        weight = "_".join(words[:end])
        if weight in joined:
            return joined[weight], "_".join(words[end:])
    return None, None
