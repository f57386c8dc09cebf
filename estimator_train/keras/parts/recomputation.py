"""Activations of a Keras model, computed again in the backward pass instead of kept: less memory, more time."""

from __future__ import annotations

import math

import tensorflow as tf
import tf_keras as keras

from estimator_train.keras.parts.layer_graph import LayerCallsError, Part, calls_of, side_effects


def recomputing(model, strategy):
    """The model as a `Part` that trains alike, and keeps of its activations those between stretches of layers alone.

    Of n layers there are about the square root of n stretches. Layers that give other outputs each time, or change in
    training (Dropout, BatchNormalization), are in none of them.

    Args:
      model: a compiled functional or Sequential `tf_keras` model, made in the scope of `strategy`.

    Raises:
      LayerCallsError: the model is of a class of its own or does not know its input, or passes masks on.
    """
    whole = calls_of(model, "recompute")
    effects = side_effects(whole, strategy)
    masked = [call.layer.name for call in whole.calls if any(tensor.is_masked for tensor in call.outputs)]
    if masked:
        raise LayerCallsError(f"Layer {masked[0]} gives a mask, which would be lost; train without recompute.")
    kept_as_it_is = [call for call, effect in zip(whole.calls, effects, strict=True) if effect]
    calls = into_segments(whole.calls, whole.outputs, kept_as_it_is)
    with strategy.scope():
        part = Part(model, calls, whole.inputs, whole.outputs, model._nested_outputs)
        part.compile_as_whole()
        return part


def into_segments(calls, outputs, kept_as_it_is):
    """The calls, those in a row that are not `kept_as_it_is` joined to `Segment`es; `outputs`: those of the model."""
    length = math.ceil(math.sqrt(len(calls)))
    groups, joined = [], []
    for call in calls:
        if call in kept_as_it_is:
            groups += [joined, call]
            joined = []
            continue
        joined.append(call)
        if len(joined) == length:
            groups.append(joined)
            joined = []
    groups = [group for group in [*groups, joined] if group != []]
    needed = {output.origin for output in outputs}
    for index in reversed(range(len(groups))):
        if isinstance(groups[index], list):
            groups[index] = Segment(groups[index], needed)
        needed.update(groups[index].inputs)
    return groups


class Segment:
    """Calls of layers as one, whose activations are computed again in the backward pass."""

    def __init__(self, calls, needed):
        """`needed`: the tensors that are used after it."""
        made = [tensor for call in calls for tensor in call.outputs]
        used = dict.fromkeys(tensor for call in calls for tensor in call.inputs)
        self.inputs = [tensor for tensor in used if tensor not in made]
        self.outputs = [tensor for tensor in made if tensor in needed]
        self._calls = calls

    def __call__(self, values):
        """Adds its outputs to `values`, a dict of tensors to values."""

        def run(*tensors):
            inner = dict(zip(self.inputs, tensors, strict=True))
            for call in self._calls:
                call(inner)
            return [inner[output] for output in self.outputs]

        results = _recomputed(run, [values[tensor] for tensor in self.inputs])
        values.update(zip(self.outputs, results, strict=True))


class _Training(keras.layers.Layer):
    """Runs a function of layers, which learn from the layer around them that they train."""

    def __init__(self, run):
        super().__init__(autocast=False)
        self._run = run

    def call(self, tensors, training):
        return self._run(*tensors)


def _recomputed(run, tensors):
    @tf.custom_gradient
    def forward(*tensors):
        def gradients(*upstream, variables=()):
            # Not before the gradients are there: else it would be computed, and kept, in the forward pass.
            with tf.control_dependencies(upstream):
                again = [tf.identity(tensor) for tensor in tensors]
            with tf.GradientTape() as tape:
                tape.watch(again)
                outputs = _Training(run)(again, training=True)
            of_tensors, of_variables = tape.gradient(outputs, (again, list(variables)), output_gradients=list(upstream))
            return (of_tensors, of_variables) if variables else of_tensors

        return run(*tensors), gradients

    return forward(*tensors)
