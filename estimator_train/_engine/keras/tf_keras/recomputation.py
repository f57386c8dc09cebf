"""Recomputes activations of a Keras model in the backward pass instead of keeping them: less memory, more time."""

import itertools
import math
from collections.abc import Collection

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras.tf_keras import layer_graph
from estimator_train._engine.keras.tf_keras.layer_graph import Call, KerasTensor, Segment, SubModel
from estimator_train._engine.remedies import UnsuitableError
from estimator_train._engine.types import Strategy


def recomputing(model: keras.Model, strategy: Strategy) -> SubModel:
    """Returns a `SubModel` of the whole model that trains identically, but keeps only activations between segments.

    n layers make about sqrt(n) segments. Layers whose outputs vary or whose state changes in training, such as Dropout
    and BatchNormalization, are not recomputed.

    Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.

    Raises UnsuitableError if the model is of a custom class, does not know its input, or passes masks on.
    """
    with strategy.scope():
        calls, outputs = layer_graph.calls_within(model, "recompute")
    effects = layer_graph.side_effects(model, calls, strategy)
    with strategy.scope():
        segments = into_segments(calls, outputs, effects)
        sub_model = SubModel(model, segments, tf.nest.pack_sequence_as(model.output, outputs))
        sub_model.compile_as_whole()
        return sub_model


def into_segments(calls: list[Call], outputs: list[KerasTensor], not_recomputed: Collection[Call]) -> list[Segment]:
    """Groups calls, after which `outputs` are used, into `Segment`s, which recompute all but `not_recomputed`."""
    masked = [call.layer.name for call in calls if any(map(layer_graph.is_masked, tf.nest.flatten(call.outputs)))]
    if masked:
        raise UnsuitableError(f"Layer {masked[0]} outputs a mask, which would be lost; train without recompute.")
    # Calls with side effects, such as an added loss, stay even if nothing uses their outputs.
    needed = {id(output) for output in outputs} | layer_graph.outputs_of(not_recomputed).keys()
    calls = layer_graph.needed_calls(calls, needed)
    length = math.ceil(math.sqrt(len(calls)))
    groups = []
    for recompute, group in itertools.groupby(calls, lambda call: call not in not_recomputed and _is_floating(call)):
        run = list(group)
        step = length if recompute else len(run)
        groups += [(recompute, run[start : start + step]) for start in range(0, len(run), step)]
    segments = []
    for recompute, run in reversed(groups):
        segments.insert(0, Segment(run, needed, recompute))
        needed |= {id(tensor) for tensor in segments[0].inputs}
    return segments


def _is_floating(call: Call) -> bool:
    """Whether all tensors are floating-point, as tf.recompute_grad needs: it adds a zero to each of its inputs."""
    return all(tensor.dtype.is_floating for tensor in [*call.keras_inputs, *tf.nest.flatten(call.outputs)])
