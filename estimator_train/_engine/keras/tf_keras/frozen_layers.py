"""Splits a Keras model behind its frozen leading layers, whose outputs can be computed once for each example."""

from collections.abc import Iterable

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras.tf_keras import layer_graph
from estimator_train._engine.keras.tf_keras.layer_graph import Call, Segment, SubModel
from estimator_train._engine.keras.tf_keras.recomputation import into_segments
from estimator_train._engine.remedies import UnsuitableError
from estimator_train._engine.types import Strategy


def split(model: keras.Model, strategy: Strategy, recompute: bool = False) -> tuple[SubModel, SubModel]:
    """Splits a compiled model into two `SubModel`s, frozen and trained; the first's outputs are the second's inputs.

    The frozen part has the leading layers that train no weights, draw no random numbers, change no state in training,
    and add nothing to the loss but weight penalties. The split may lie inside a model that is used as a layer. The
    trained part is compiled, and may `recompute` activations. Raises UnsuitableError if the model is of a custom class
    or does not know its input, no frozen layers lead it or follow one whose outputs vary, or their outputs are masked.
    """
    with strategy.scope():
        calls, outputs = layer_graph.calls_within(model, "frozen_features")
    effects = layer_graph.side_effects(model, calls, strategy)
    frozen, reasons = _leading(model, calls, effects)
    rest = [call for call in calls if call not in frozen]
    made = _ids(model.inputs) | layer_graph.outputs_of(frozen).keys()
    used = [*(tensor for call in rest for tensor in call.keras_inputs), *outputs]
    cut = list({id(tensor): tensor for tensor in used if id(tensor) in made}.values())
    frozen = layer_graph.needed_calls(frozen, _ids(cut))
    if not any(call.layer.weights for call in frozen):
        raise UnsuitableError(
            f"No frozen layers lead the model {': '.join([model.name, *reasons[:1]])}; set trainable = False on its "
            "first layers before compile, or train it without frozen_features."
        )
    for tensor in cut:
        if layer_graph.is_masked(tensor):
            raise UnsuitableError(
                f"Layer {tensor.node.layer.name}, the last frozen layer, outputs a mask, which cannot be kept; train "
                "without frozen_features."
            )
    with strategy.scope():
        segments = [Segment(rest, layer_graph.outputs_of(rest))]
        if recompute:
            segments = into_segments(rest, outputs, effects)
        trained = SubModel(model, segments, tf.nest.pack_sequence_as(model.output, outputs), cut)
        trained.compile_as_whole()
        return SubModel(model, [Segment(frozen, _ids(cut))], cut), trained


def _leading(model: keras.Model, calls: list[Call], effects: dict[Call, str]) -> tuple[list[Call], list[str]]:
    """Returns the calls of the frozen part, and a list of reasons why it ends there; see `side_effects`."""
    trained = _ids(model.trainable_variables)
    made, frozen, reasons = _ids(model.inputs), [], []
    after = {}  # ids of tensors that a call keeps out of the frozen part: (reason, remedy)
    for call in calls:
        effect, is_trained = effects.get(call), bool(trained & _ids(call.layer.weights))
        leads = made >= _ids(call.keras_inputs)
        reason = next((after[id(tensor)] for tensor in call.keras_inputs if id(tensor) in after), None)
        if reason and call.layer.weights and not is_trained:
            why, fix = reason
            raise UnsuitableError(
                f"{why}, so the frozen layers after it, such as {call.layer.name}, cannot be computed once for each "
                f"example; {fix}, or train without frozen_features."
            )
        if leads and not is_trained and effect is None:
            frozen.append(call)
            made |= layer_graph.outputs_of([call]).keys()
            continue
        if leads and effect and (not is_trained or isinstance(call.layer, keras.layers.BatchNormalization)):
            reason = _obstacle(call, effect, is_trained)
            reasons.append(reason[0])
        elif is_trained:
            reason = None
        if reason:
            after.update(dict.fromkeys(layer_graph.outputs_of([call]), reason))
    return frozen, reasons


def _obstacle(call: Call, effect: str, is_trained: bool) -> tuple[str, str]:
    why = f"Layer {call.layer.name} ({type(call.layer).__name__}) {effect}"
    return why, "freeze it" if is_trained else "remove it, call the model around it with training=False"


def _ids(objects: Iterable[object]) -> set[int]:
    return set(map(id, objects))
