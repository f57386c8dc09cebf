"""Divides a functional Keras model into sub-models, even inside models that it uses as layers."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import tensorflow as tf
import tf_keras as keras
from tensorflow.core.framework.node_def_pb2 import NodeDef

from estimator_train._engine.checkpoints.object_based import parts_by_key
from estimator_train._engine.host.array_store import bytes_of
from estimator_train._engine.keras import private_keras, private_tensorflow
from estimator_train._engine.keras.tf_keras import private_tf_keras
from estimator_train._engine.remedies import UnsuitableError
from estimator_train._engine.types import Nest, Strategy

# Stateful operations that do not change the state.
_READS = (
    *("ReadVariableOp", "VarHandleOp", "VariableShape", "ResourceGather", "ResourceGatherNd"),
    *("LookupTableFind", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2", "Assert"),
)

Nodes: TypeAlias = list[NodeDef]


class KerasTensor(Protocol):
    """A symbolic tensor of a functional model; sets and dicts contain its id, because it cannot be hashed."""

    shape: tf.TensorShape
    dtype: tf.DType
    node: "Call"


class Call(Protocol):
    """A call of a layer in a functional model, Keras' `Node`."""

    layer: keras.layers.Layer
    call_args: tuple
    call_kwargs: dict[str, Nest]
    keras_inputs: list[KerasTensor]  # those in the arguments
    outputs: Nest


def calls_within(model: keras.Model, option: str) -> tuple[list[Call], list[KerasTensor]]:
    """Returns all calls in a model, in order, and the list of its outputs; call it in the scope of its strategy.

    Raises UnsuitableError with the setting `option`, which needs the calls, if the model cannot be taken apart.
    """
    if not is_functional(model):
        raise UnsuitableError(
            f"{model.name} is of the custom class {type(model).__name__}, and only functional and Sequential models "
            f"can be taken apart; train it without {option}."
        )
    if not model.inputs:
        raise UnsuitableError(f"{model.name} does not know its input yet; make keras.Input(...) its first layer.")
    calls = calls_of(model)
    if not any(_is_graph(call.layer) for call in calls):
        return calls, model.outputs
    # Keras builds sub-models only between tensors of the same graph. Called again on the outer model's tensors, layers
    # of the functional models in it have theirs in one graph.
    calls = []
    return calls, _call_layers(model, model.inputs, None, calls, option)


def is_functional(model: keras.Model) -> bool:
    """Returns whether a model is functional or Sequential, and not of a custom class."""
    return type(model) in (private_tf_keras.functional_class(), keras.Sequential)


def calls_of(model: keras.Model) -> list[Call]:
    """Returns the calls in a functional model, in order; `layer.inbound_nodes` also lists calls in other models."""
    by_depth = sorted(private_tf_keras.nodes_by_depth(model).items(), reverse=True)
    return [node for _, nodes in by_depth for node in nodes if not node.is_input]


def is_masked(tensor: KerasTensor) -> bool:
    return private_keras.mask_of(tensor) is not None


def _is_graph(layer: keras.layers.Layer) -> bool:
    return is_functional(layer) and bool(layer.inputs)


def _call_layers(
    model: keras.Model, inputs: list[KerasTensor], training: bool | None, calls: list[Call], option: str
) -> list[KerasTensor]:
    """Calls a functional model's layers on other KerasTensors; returns the outputs, and adds to the list `calls`."""
    tensors = dict(zip(map(id, model.inputs), inputs, strict=True))
    for call in calls_of(model):
        layer, (args, kwargs) = call.layer, _arguments(call, tensors)
        inner_training = kwargs.get("training")
        if inner_training is None:
            inner_training = training
        if _is_graph(layer) and kwargs.get("mask") is None and len(args) == 1:
            pairs = zip(_in_order(layer, args[0]), layer.inputs, strict=True)
            given = [_conform(*pair, calls) for pair in pairs]
            outputs = _call_layers(layer, given, inner_training, calls, option)
        else:
            if inner_training is not None:
                kwargs["training"] = inner_training
            outputs = tf.nest.flatten(layer(*args, **kwargs))
            calls.append(outputs[0].node)
            takes_training = "training" in calls[-1].call_kwargs  # Keras drops arguments that a layer does not accept
            if inner_training is not None and not takes_training and _has_layers(layer):
                raise UnsuitableError(
                    f"Layer {layer.name} contains layers, but its call takes no argument `training` for them; "
                    f"train without {option}."
                )
        tensors.update(zip(map(id, tf.nest.flatten(call.outputs)), outputs, strict=True))
    return [tensors[id(output)] for output in model.outputs]


def _has_layers(layer: keras.layers.Layer) -> bool:
    return any(isinstance(part, keras.layers.Layer) for part in parts_by_key(layer).values())


def _arguments(call: Call, values: dict[int, Nest]) -> tuple[tuple, dict[str, Nest]]:
    """Returns (args, kwargs) of a call with its tensors replaced by their `values`, a dict by the tensors' ids."""
    arguments = call.call_args, dict(call.call_kwargs)
    return tf.nest.map_structure(lambda argument: values.get(id(argument), argument), arguments)


def _in_order(model: keras.Model, inputs: Nest) -> list[KerasTensor]:
    """Lists the inputs given to a functional model in the model's order, as Keras does for dicts of input names."""
    if isinstance(inputs, dict) and not isinstance(model.input, dict) and inputs.keys() >= set(model.input_names):
        return [inputs[name] for name in model.input_names]
    return tf.nest.flatten(inputs)


def _conform(tensor: KerasTensor, model_input: KerasTensor, calls: list[Call]) -> KerasTensor:
    """Reshapes and casts a tensor as Keras does for an input of a functional model; adds to the list `calls`."""
    if not tensor.shape.is_compatible_with(model_input.shape):
        reshape = tf.squeeze if tensor.shape.rank > model_input.shape.rank else tf.expand_dims
        tensor = reshape(tensor, axis=-1)
        calls.append(tensor.node)
    if tensor.dtype != model_input.dtype:
        tensor = tf.cast(tensor, model_input.dtype)
        calls.append(tensor.node)
    return tensor


def side_effects(model: keras.Model, calls: list[Call], strategy: Strategy) -> dict[Call, str]:
    """Returns {call: description} for the calls that, in training, do more than compute the same outputs each time."""
    nodes, adds_losses, library = _traced(model, calls, strategy)
    effects = {}
    for call in calls:
        operation = _stateful_operation(nodes[call], library)
        if adds_losses[call]:
            effects[call] = "adds to the loss for its outputs"
        elif operation is not None:
            effects[call] = f"gives different outputs each time or changes in training, by its operation {operation}"
    return effects


def _traced(
    model: keras.Model, calls: list[Call], strategy: Strategy
) -> tuple[dict[Call, Nodes], dict[Call, bool], dict[str, Nodes]]:
    nodes, adds_losses = {}, {}

    def run(tensors: Nest) -> None:
        operations = tf.compat.v1.get_default_graph().get_operations
        values = dict(zip(map(id, model.inputs), tensors, strict=True))
        for call in calls:
            before = len(operations())
            args, kwargs = _arguments(call, values)
            results = tf.nest.flatten(call.layer(*args, **kwargs))
            values.update(zip(map(id, tf.nest.flatten(call.outputs)), results, strict=True))
            nodes[call] = [operation.node_def for operation in operations()[before:]]
            adds_losses[call] = _adds_losses(call.layer)

    training = _Training(run)

    @tf.function(autograph=False)
    def trace(*tensors: tf.Tensor) -> Nest:
        strategy.run(lambda *tensors: training(tensors, training=True), args=tensors)

    graph = trace.get_concrete_function(*(tensor.type_spec for tensor in model.inputs)).graph
    functions = graph.as_graph_def().library.function
    return nodes, adds_losses, {function.signature.name: function.node_def for function in functions}


class _Training(keras.layers.Layer):
    """Runs a function in which layers are in training mode."""

    def __init__(self, run: Callable[[Nest], None]) -> None:
        super().__init__(autocast=False)
        self._run = run

    def call(self, tensors: Nest, training: bool) -> Nest:
        self._run(tensors)
        return []


def _adds_losses(layer: keras.layers.Layer) -> bool:
    """Returns whether the last call added to the loss: unlike a penalty, an added loss is the same tensor each time."""
    losses, again = layer.losses, layer.losses
    return any(loss is other for loss in losses for other in again)


def _stateful_operation(nodes: Nodes, library: dict[str, Nodes]) -> str | None:
    for node in nodes:
        called = [attribute.func.name for attribute in node.attr.values() if attribute.HasField("func")]
        if called:
            operation = _stateful_operation([inner for name in called for inner in library[name]], library)
            if operation is not None:
                return operation
        elif private_tensorflow.is_stateful_op(node.op) and node.op not in _READS:
            return node.op
    return None


class Segment:
    """Consecutive calls as one Keras model."""

    def __init__(self, calls: list[Call], needed: Iterable[int], recompute: bool = False) -> None:
        """`needed` has the ids of the tensors to output. With `recompute`, the backward pass runs the calls again."""
        self.calls = calls
        made = outputs_of(calls)
        used = {id(tensor): tensor for call in calls for tensor in call.keras_inputs}
        self.inputs = [tensor for key, tensor in used.items() if key not in made]
        self.outputs = [tensor for key, tensor in made.items() if key in needed]
        self._recompute = recompute
        self._model = keras.Model(self.inputs, self.outputs)

    def __call__(self, values: dict[int, Nest], training: bool | None) -> None:
        """Adds its outputs to `values`, a dict of the ids of tensors to their values."""

        def run(*tensors: tf.Tensor) -> Nest:
            # The backward pass runs this outside the SubModel's call, where layers would not know `training`.
            return tf.nest.flatten(self._model(tensors, training=training))

        run = tf.recompute_grad(_gradients_together(run)) if self._recompute else run
        results = run(*(values[id(tensor)] for tensor in self.inputs))
        values.update(zip(map(id, self.outputs), results, strict=True))


def _gradients_together(run: Callable) -> Callable:
    """Makes each gradient of `run` wait for the others, so that variables are updated after all uses of old values."""

    # TensorFlow makes the update wait for the reads. But Grappler drops such an edge where the IdentityN of
    # tf.recompute_grad also implies it, and later removes that IdentityN as well.
    @tf.custom_gradient
    def together(*tensors: tf.Tensor) -> tuple[Nest, Callable]:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            results = run(*tensors)

        def gradients(*upstream: tf.Tensor, variables: Sequence[tf.Variable] = ()) -> Nest:
            found = tape.gradient(results, [*tensors, *variables], upstream)
            if any(gradient is not None for gradient in found):
                found = tf.tuple(found)
            if not variables:
                return found
            return found[: len(tensors)], found[len(tensors) :]

        return results, gradients

    return together


class SubModel(keras.Model):
    """A part of a model, run in segments.

    It shares the layers of the whole model, has the whole model's variables and losses, and trains with the same
    optimizer, loss and metrics after `compile_as_whole`.
    """

    def __init__(
        self, whole: keras.Model, segments: list[Segment], outputs: Nest, inputs: list[KerasTensor] | None = None
    ) -> None:
        """`outputs`: nested tensors. `inputs`: a list of tensors; None means whatever the whole model accepts."""
        super().__init__(name=whole.name, autocast=False)
        self._whole = whole  # Keras finds all variables and losses in it, in the order that the optimizer expects
        arrange = tf.nest.flatten
        if inputs is None:
            arrange, inputs = keras.Model(whole.input, whole.inputs), whole.inputs

        # This is a closure because Keras would track the variables of layers stored in attributes.
        def run(features: Nest, training: bool | None) -> Nest:
            given = zip(inputs, tf.nest.flatten(arrange(features)), strict=True)
            values = {id(tensor): tf.cast(value, tensor.dtype) for tensor, value in given}
            for segment in segments:
                segment(values, training)
            return tf.nest.map_structure(lambda tensor: values[id(tensor)], outputs)

        self._run = run
        self._describe = lambda: _description([call for each in segments for call in each.calls], inputs, outputs)

    def call(self, inputs: Nest, training: bool | None = None) -> Nest:
        return self._run(inputs, training)

    def compile_as_whole(self) -> None:
        """Takes the whole model's optimizer, loss and metrics; call in the scope of its strategy."""
        self.compile(self._whole.optimizer, self._whole.compiled_loss, jit_compile=self._whole.jit_compile)
        self.compiled_metrics = self._whole.compiled_metrics

    def fingerprint(self) -> str:
        return self._describe()


def needed_calls(calls: list[Call], needed: Iterable[int]) -> list[Call]:
    """Returns the calls that the tensors with the ids `needed` depend on."""
    needed, kept = set(needed), []
    for call in reversed(calls):
        if needed & outputs_of([call]).keys():
            needed.update(map(id, call.keras_inputs))
            kept.insert(0, call)
    return kept


def outputs_of(calls: Iterable[Call]) -> dict[int, KerasTensor]:
    """Returns a dict of the calls' output tensors by their ids."""
    return {id(tensor): tensor for call in calls for tensor in tf.nest.flatten(call.outputs)}


def _description(calls: list[Call], inputs: list[KerasTensor], outputs: Nest) -> str:
    tensors = [*inputs, *outputs_of(calls).values()]
    numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
    names = {id(tensor): f"tensor {number} as {tensor.dtype.name}" for number, tensor in enumerate(tensors)}
    digest = hashlib.sha256()
    for call in calls:
        described = [type(call.layer).__name__, _without_names(call.layer.get_config()), repr(_arguments(call, names))]
        digest.update(json.dumps(described, sort_keys=True, default=repr).encode())
        for weight in call.layer.get_weights():
            digest.update(bytes_of(np.ascontiguousarray(weight)))
    digest.update(repr([numbers[id(output)] for output in outputs]).encode())
    return digest.hexdigest()


def _without_names(config: Any) -> Any:
    """Returns the config without names, because Keras numbers the names of layers within a process."""
    if isinstance(config, dict):
        return {key: _without_names(value) for key, value in config.items() if key != "name"}
    if isinstance(config, (list, tuple)):
        return [_without_names(value) for value in config]
    return config
