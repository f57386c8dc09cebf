"""A functional or Sequential Keras model as the calls of its layers, in order, and parts of it as models."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import numpy as np
import tensorflow as tf
import tf_keras as keras

# Nothing public tells these: the calls that a functional model is made of, what it does to its inputs, the losses that
# a call has added, and whether an operation is stateful.
from tensorflow.python.framework import op_def_registry
from tf_keras.src.engine.functional import Functional

_GRAPHS = (Functional, keras.Sequential)

# Stateful operations that leave the state as it is.
_READS = (
    *("ReadVariableOp", "VarHandleOp", "VariableShape", "ResourceGather", "ResourceGatherNd"),
    *("LookupTableFind", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2", "Assert"),
)


class LayerCallsError(ValueError):
    """A model that cannot be taken apart as it was asked."""


@dataclasses.dataclass
class LayerCalls:
    """The calls of a model's layers, those of models that are layers too, from its inputs to its outputs."""

    inputs: list[Tensor]
    calls: list[Call]
    outputs: list[Tensor]


def calls_of(model, what_for):
    """The `LayerCalls` of a functional or Sequential `tf_keras` model; `what_for`: the option that asks for them.

    Raises:
      LayerCallsError: the model is of a class of its own, or does not know its input.
    """
    if type(model) not in _GRAPHS:
        raise LayerCallsError(
            f"{model.name} is of the class {type(model).__name__}, and only functional and Sequential models can be "
            f"taken apart; train it without {what_for}."
        )
    if not _is_graph(model):
        raise LayerCallsError(f"{model.name} does not know its input yet; let keras.Input(...) be its first layer.")
    inputs, calls = [Tensor(each) for each in model.inputs], []
    outputs = _add_calls(model, inputs, None, calls, what_for)
    return LayerCalls(inputs, calls, outputs)


def side_effects(layer_calls, strategy):
    """A list of what each call does in training beside giving outputs: a text, or None. Nothing is run.

    `layer_calls`: of a model made in the scope of `strategy`. Its tensors are told whether they have a mask.
    """
    inputs, calls = layer_calls.inputs, layer_calls.calls
    nodes, losses = {}, {}

    class Training(keras.layers.Layer):
        """Layers learn from the layer around them whether they train."""

        def call(self, tensors, training):
            graph = tf.compat.v1.get_default_graph()
            values = dict(zip(inputs, tensors, strict=True))
            for call in calls:
                before = len(graph.get_operations())
                call(values)
                nodes[call] = [operation.node_def for operation in graph.get_operations()[before:]]
                losses[call] = any(layer._eager_losses or layer._losses for layer in call.layer._flatten_layers())
                for tensor in call.outputs:
                    tensor.is_masked = getattr(values[tensor], "_keras_mask", None) is not None
            return []

    training = Training(autocast=False)

    @tf.function(autograph=False)
    def trace(*tensors):
        strategy.run(lambda *tensors: training(tensors, training=True), args=tensors)

    graph = trace.get_concrete_function(*(tensor.keras_tensor.type_spec for tensor in inputs)).graph
    library = {function.signature.name: function.node_def for function in graph.as_graph_def().library.function}

    def stateful(node):
        """The first operation of a node, or of the functions it calls, that does not do the same each time."""
        called = [attribute.func.name for attribute in node.attr.values() if attribute.HasField("func")]
        if called:
            return next(filter(None, (stateful(inner) for name in called for inner in library[name])), None)
        return node.op if op_def_registry.get(node.op).is_stateful and node.op not in _READS else None

    def does(call):
        if losses[call]:
            return "adds to the loss for its outputs"
        operation = next(filter(None, map(stateful, nodes[call])), None)
        return operation and f"gives other outputs each time or changes in training, by its operation {operation}"

    return [does(call) for call in calls]


class Part(keras.Model):
    """Some of a model's layer calls as a model, from some of its tensors to others.

    The layers are shared with the model. The part is compiled, where it is to be trained, with the model's own
    optimizer, loss and metrics; its variables and losses are those of the whole model.
    """

    def __init__(self, whole, calls, inputs, outputs, structure=None):
        super().__init__(name=whole.name, autocast=False)
        self._whole = whole  # Keras finds all variables and losses there, in the order that the optimizer knows
        structure = list(range(len(outputs))) if structure is None else structure

        def run(features):
            values = {}
            for tensor, value in zip(inputs, whole._flatten_to_reference_inputs(features), strict=True):
                values[tensor] = _conform(value, tensor)
            for call in calls:
                call(values)
            return tf.nest.pack_sequence_as(structure, [output.value(values) for output in outputs])

        self._run = run
        self._describe = lambda: _description(calls, inputs, outputs)

    def call(self, inputs, training=None):
        return self._run(inputs)

    def compile_as_whole(self):
        """Takes the whole model's optimizer, loss and metrics; call in the scope of its strategy."""
        self.compile(self._whole.optimizer, self._whole.compiled_loss, jit_compile=self._whole.jit_compile)
        self.compiled_metrics = self._whole.compiled_metrics

    def fingerprint(self):
        """A hex digest of what its outputs depend on: the layers' settings, but for names, and their weights."""
        return self._describe()


@dataclasses.dataclass(eq=False)
class Tensor:
    """A tensor between two calls; `source`: it is that one, as the input of a model that is a layer."""

    keras_tensor: object
    source: Tensor | None = None
    is_masked: bool = False

    @property
    def origin(self):
        return self if self.source is None else self.source.origin

    def value(self, values):
        """Its value, of a dict of tensors to values."""
        return values[self] if self.source is None else _conform(self.source.value(values), self)


@dataclasses.dataclass(eq=False)
class Call:
    """A call of a layer that is no graph of others; `args` and `kwargs` have `Tensor`s for tensors."""

    layer: keras.layers.Layer
    args: tuple
    kwargs: dict
    outputs: list

    @property
    def inputs(self):
        parts = tf.nest.flatten((self.args, self.kwargs))
        return [part.origin for part in parts if isinstance(part, Tensor)]

    def __call__(self, values):
        """Adds its outputs to `values`, a dict of tensors to values."""
        args, kwargs = tf.nest.map_structure(
            lambda part: part.value(values) if isinstance(part, Tensor) else part, (self.args, self.kwargs)
        )
        results = tf.nest.flatten(self.layer(*args, **kwargs))
        values.update(zip(self.outputs, results, strict=True))


def _is_graph(model):
    return type(model) in _GRAPHS and bool(model.inputs) and getattr(model, "_graph_initialized", True)


def _conform(value, tensor):
    return Functional._conform_to_reference_input(None, value, ref_input=tensor.keras_tensor)


def _add_calls(model, inputs, training, calls, what_for):
    """Adds the calls of a graph of layers to the list `calls`, in order; returns the output tensors.

    `training`: what the model is called with, where the model around it says so.
    """
    tensors = {id(each): tensor for each, tensor in zip(model.inputs, inputs, strict=True)}
    nodes = [node for _, nodes in sorted(model._nodes_by_depth.items(), reverse=True) for node in nodes]
    for node in nodes:
        if node.is_input:
            continue
        args, kwargs = tf.nest.map_structure(
            lambda part: tensors.get(id(part), part), (node.call_args, dict(node.call_kwargs))
        )
        outputs = tf.nest.flatten(node.outputs)
        told = training if kwargs.get("training") is None else kwargs["training"]
        if _is_graph(node.layer) and kwargs.get("mask") is None and len(args) == 1:
            given = zip(node.layer.inputs, node.layer._flatten_to_reference_inputs(args[0]), strict=True)
            made = _add_calls(node.layer, [Tensor(each, source) for each, source in given], told, calls, what_for)
        else:
            made = [Tensor(each) for each in outputs]
            if told is not None and node.layer._call_spec.expects_training_arg:
                kwargs["training"] = told
            elif told is not None and list(node.layer._flatten_layers(include_self=False)):
                raise LayerCallsError(
                    f"Layer {node.layer.name} has layers, but no argument training by which they could be told what "
                    f"the model around is called with; train without {what_for}."
                )
            calls.append(Call(node.layer, args, kwargs, made))
        tensors.update(zip(map(id, outputs), made, strict=True))
    return [tensors[id(output)] for output in model.outputs]


def _description(calls, inputs, outputs):
    numbers = {tensor: number for number, tensor in enumerate(inputs)}
    digest = hashlib.sha256()

    def number(part):
        if not isinstance(part, Tensor):
            return part
        return f"tensor {numbers[part.origin]} as {part.keras_tensor.dtype.name}"

    for call in calls:
        for tensor in call.outputs:
            numbers[tensor] = len(numbers)
        arguments = tf.nest.map_structure(number, (call.args, call.kwargs))
        described = [type(call.layer).__name__, _without_names(call.layer.get_config()), repr(arguments)]
        digest.update(json.dumps(described, sort_keys=True, default=repr).encode())
        for weight in call.layer.get_weights():
            weight = np.ascontiguousarray(weight)
            digest.update(repr(weight.tolist()).encode() if weight.dtype.hasobject else weight.tobytes())
    digest.update(repr([numbers[output] for output in outputs]).encode())
    return digest.hexdigest()


def _without_names(config):
    """Keras numbers the names of layers within a process."""
    if isinstance(config, dict):
        return {key: _without_names(value) for key, value in config.items() if key != "name"}
    return [_without_names(value) for value in config] if isinstance(config, (list, tuple)) else config
