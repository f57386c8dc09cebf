"""Where the frozen leading layers of a Keras model end: what of it is computed once an example, and what is trained."""

from __future__ import annotations

import tf_keras as keras

from estimator_train.keras.parts.layer_graph import LayerCallsError, Part, calls_of, side_effects
from estimator_train.keras.parts.recomputation import into_segments


def split(model, strategy, *, recompute=False):
    """The frozen and the trained part of a compiled model, two `Part`s; the outputs of the one are the other's inputs.

    The frozen part has the leading layers that have no weights which are trained,
    draw no random numbers, change no state in training, and add nothing to the loss but penalties of weights. Models
    that are layers are divided, too. The trained part is compiled.

    Args:
      model: a functional or Sequential `tf_keras` model, made in the scope of `strategy`.
      recompute: whether the trained part computes activations again, see `recomputation`.

    Raises:
      LayerCallsError: the model is of a class of its own or does not know its input, no frozen layers lead it,
        frozen layers come after one whose outputs differ each time, or their outputs are masked.
    """
    whole = calls_of(model, "frozen_features")
    inputs, calls, outputs = whole.inputs, whole.calls, whole.outputs
    effects = side_effects(whole, strategy)
    frozen, reasons = _leading(model, calls, inputs, effects)
    made = {*inputs, *(tensor for call in frozen for tensor in call.outputs)}
    rest = [call for call in calls if call not in frozen]
    used = [tensor for call in rest for tensor in call.inputs] + [output.origin for output in outputs]
    cut = [tensor for tensor in dict.fromkeys(used) if tensor in made]
    frozen = _needed(frozen, cut)
    if not any(call.layer.weights for call in frozen):
        at = f": {reasons[0]}" if reasons else ""
        raise LayerCallsError(
            f"No frozen layers lead the model {model.name}{at}; set trainable = False on its first layers before "
            "compile, or train it without frozen_features."
        )
    for tensor in cut:
        if tensor.is_masked:
            raise LayerCallsError(
                f"Layer {tensor.keras_tensor._keras_history.layer.name}, the last that is frozen, gives a mask, which "
                "is not kept; train without frozen_features."
            )
    if recompute:
        kept_as_it_is = [call for call, effect in zip(calls, effects, strict=True) if effect]
        rest = into_segments(rest, outputs, kept_as_it_is)
    with strategy.scope():
        trained = Part(model, rest, cut, outputs, model._nested_outputs)
        trained.compile_as_whole()
        return Part(model, frozen, inputs, cut), trained


def _leading(model, calls, inputs, effects):
    """The calls of the frozen part, and the reasons why others of frozen layers are not in it.

    `effects`: of each call what `side_effects` tells.
    """
    trained = {id(variable) for variable in model.trainable_variables}
    made, frozen, reasons = set(inputs), [], []
    after = {}  # tensors that would be the frozen part's but for a call, to why that is not
    for call, what in zip(calls, effects, strict=True):
        is_trained = any(id(weight) in trained for weight in call.layer.weights)
        leads = made.issuperset(call.inputs)
        reason = next((after[tensor] for tensor in call.inputs if tensor in after), None)
        if reason and call.layer.weights and not is_trained:
            why, mend = reason
            raise LayerCallsError(
                f"{why}, and frozen layers such as {call.layer.name} come after it, which cannot be computed once an "
                f"example; {mend}, or train without frozen_features."
            )
        if leads and not is_trained and what is None:
            frozen.append(call)
            made.update(call.outputs)
            continue
        if leads and what and (not is_trained or isinstance(call.layer, keras.layers.BatchNormalization)):
            why = f"Layer {call.layer.name} ({type(call.layer).__name__}) {what}"
            mend = "freeze it" if is_trained else "leave it out, call the model around it with training=False"
            reason = why, mend
            reasons.append(why)
        elif is_trained:
            reason = None
        if reason:
            after.update(dict.fromkeys(call.outputs, reason))
    return frozen, reasons


def _needed(calls, tensors):
    """Those of the calls that the tensors depend on."""
    needed, kept = set(tensors), []
    for call in reversed(calls):
        if needed.intersection(call.outputs):
            needed.update(call.inputs)
            kept.insert(0, call)
    return kept
