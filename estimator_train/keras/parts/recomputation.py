"""Activations of a Keras model, computed again in the backward pass instead of kept: less memory, more time."""

from __future__ import annotations

import itertools
import math

import tensorflow as tf

from estimator_train.keras.parts.layer_graph import (
    LayerGraphError,
    Segment,
    SubModel,
    calls_within,
    gives_mask,
    needed_calls,
    outputs_of,
    side_effects,
)


def recomputing(model, strategy):
    """The model as a `SubModel` that trains alike, and keeps of its activations those between segments alone.

    Of n layers there are about the square root of n segments. Layers that give other outputs each time, or change in
    training (Dropout, BatchNormalization), are in none of them.

    Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.

    Args:
      model: a compiled functional or Sequential `tf_keras` model, made in the scope of `strategy`.

    Raises:
      LayerGraphError: the model is of a class of its own or does not know its input, or passes masks on.
    """
    with strategy.scope():
        calls, outputs = calls_within(model, "recompute")
    effects = side_effects(model, calls, strategy)
    with strategy.scope():
        segments = into_segments(calls, outputs, effects)
        sub_model = SubModel(model, segments, tf.nest.pack_sequence_as(model.output, outputs))
        sub_model.compile_as_whole()
        return sub_model


def into_segments(calls, outputs, kept_as_it_is):
    """The calls as a list of `Segment`s; those that are not in `kept_as_it_is` are recomputed.

    `outputs`: the tensors that are used after all of them.
    """
    masked = [call.layer.name for call in calls if gives_mask(call)]
    if masked:
        raise LayerGraphError(f"Layer {masked[0]} gives a mask, which would be lost; train without recompute.")
    # Calls that add to the loss are made for that; what they give may be needed by none.
    needed = {id(output) for output in outputs} | outputs_of(kept_as_it_is).keys()
    calls = needed_calls(calls, needed)
    length = math.ceil(math.sqrt(len(calls)))
    groups = []
    for recompute, run in itertools.groupby(calls, lambda call: call not in kept_as_it_is and _is_floating(call)):
        run = list(run)
        step = length if recompute else len(run)
        groups += [(recompute, run[start : start + step]) for start in range(0, len(run), step)]
    segments = []
    for recompute, group in reversed(groups):
        segments.insert(0, Segment(group, needed, recompute))
        needed |= {id(tensor) for tensor in segments[0].inputs}
    return segments


def _is_floating(call):
    """Whether tf.recompute_grad takes its tensors: it adds a zero made of the gradients to all that come in."""
    return all(tensor.dtype.is_floating for tensor in [*call.keras_inputs, *tf.nest.flatten(call.outputs)])
