"""StepLoop: the ops of a v1 graph's step a second time, in a loop of the same graph that runs many steps in one call.

The loop uses the step's own variables, tables and iterator, whose handles it takes from outside. TensorFlow begins an
iteration once all of the one before is done, and runs what the session's fetches need, as in single steps. A tensor
that is fetched becomes a variable of the loop, which returns its value in the last step. The ops are those of v1 loops,
because only those of a graph have one kernel for all fetches: ops in functions have others for each set of fetches,
whose random numbers would begin anew.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_train._engine.graph import private_tensorflow
from estimator_train._engine.graph.loopable import CALLS, HANDLES, READ, step_ops

v1 = tf.compat.v1

_SCOPE = "estimator_train/loop"  # what the names of all ops of a loop begin with
_IS_MORE = "is_more"


class LoopedGraph(tf.Graph):
    """A graph whose GraphDefs, such as those in event files and checkpoints, leave out the ops of its `StepLoop`."""

    def as_graph_def(self, *arguments: Any, **settings: Any) -> tf.compat.v1.GraphDef:
        graph_def = super().as_graph_def(*arguments, **settings)
        own = [node for node in graph_def.node if not node.name.startswith(_SCOPE)]
        if len(own) == len(graph_def.node):
            return graph_def
        return v1.GraphDef(node=own, library=graph_def.library, versions=graph_def.versions)


class StepLoop:
    """Runs steps, which are what `step` and `loss` need, while fewer than `limit` are done and `seconds` are not over.

    Both are placeholders. A loss that is NaN ends a call, too. `count` is the number of steps of a call, 0 if there
    was no data. Needs the graph as default.
    """

    def __init__(self, step: Sequence[tf.Operation | tf.Tensor], loss: tf.Tensor | None) -> None:
        self._graph = v1.get_default_graph()
        self._twins: dict[tf.Operation, tf.Operation] = {}  # in the loop
        self._outputs: dict[tf.Operation | tf.Tensor, tf.Tensor] = {}
        self._pivot: tf.Operation | None = None  # runs in each step
        self._is_more: tf.Tensor | None = None
        needed = [*step, loss] if loss is not None else step
        ops = step_ops(needed)
        nodes = _Nodes()
        with private_tensorflow.unfinalized(self._graph):
            with tf.name_scope(f"{_SCOPE}_limits"):
                self.limit, self.seconds = v1.placeholder(tf.int64, []), v1.placeholder(tf.float64, [])
            nodes.enter("limit", nodes.outside(self.limit), tf.int64)
            nodes.add("begun", "Timestamp", [])
            nodes.add("end", "AddV2", ["begun", nodes.outside(self.seconds)], T=tf.float64)
            nodes.enter("last_start", "end", tf.float64)

            nodes.add("is_below", "Less", ["count/now", "limit"], T=tf.int64)
            nodes.add("may_start", "LogicalAnd", ["is_below", "goes_on/now"])
            reads = [op for op in ops if op.type == READ]
            if reads:
                self._read_if_more(nodes, reads[0])
            else:
                nodes.add(_IS_MORE, "LoopCond", ["may_start"])
            nodes.add("pivot", "Identity", ["count/step"], T=tf.int64)
            self._copy(nodes, ops)

            done = [f"^{_twin(getattr(element, 'op', element))}" for element in needed]
            nodes.constant("one", 1, tf.int64, "^pivot")
            nodes.add("next_count", "AddV2", ["count/step", "one", *done], T=tf.int64)
            nodes.add("time", "Timestamp", ["^next_count"])
            goes_on = nodes.add("is_in_time", "LessEqual", ["time", "last_start"], T=tf.float64)
            if loss is not None and loss.dtype.is_floating:
                nodes.add("is_nan", "IsNan", [self._input(nodes, loss)], T=loss.dtype)
                nodes.add("has_loss", "LogicalNot", ["is_nan"])
                goes_on = nodes.add("next_goes_on", "LogicalAnd", ["is_in_time", "has_loss"])
            nodes.variable("count", 0, tf.int64, "next_count", _IS_MORE)
            nodes.variable("goes_on", True, tf.bool, goes_on, _IS_MORE)
            self._pivot, is_more, count = self._import(nodes, ops, ["pivot", _IS_MORE, "count/last"])
        self._is_more, self.count = is_more.outputs[0], count.outputs[0]

    def fetches(self, elements: Iterable[tf.Operation | tf.Tensor]) -> dict[Any, tf.Operation | tf.Tensor]:
        """Returns {element of the graph: what to fetch for its value in the last step of a call}."""
        elements = dict.fromkeys(elements)
        new = [element for element in elements if element not in self._outputs]
        if new:
            with private_tensorflow.unfinalized(self._graph):
                self._add_outputs(new)
        fetched = {element: self._outputs[element] for element in elements}
        return {key: output.op if isinstance(key, tf.Operation) else output for key, output in fetched.items()}

    def _read_if_more(self, nodes: "_Nodes", read: tf.Operation) -> None:
        """Adds ops that take a batch if a step may start; the loop ends where there is none."""
        # An optional batch, because the error at the end of the data would take the values of the last step with it.
        nodes.add("iterator", "Switch", [_twin(read.inputs[0].op), "may_start"], T=tf.resource)
        nodes.add("batch", "IteratorGetNextAsOptional", ["iterator:1"], read.device, **_types_of(read))
        nodes.add("has_batch", "OptionalHasValue", ["batch"], read.device)
        nodes.add("may_not", "Switch", ["may_start", "may_start"], T=tf.bool)
        nodes.add("has_batch_if_any", "Merge", ["has_batch", "may_not"], T=tf.bool, N=2)
        nodes.add(_IS_MORE, "LoopCond", ["has_batch_if_any"])
        nodes.add("batch_of_step", "Switch", ["batch", _IS_MORE], read.device, T=tf.variant)

    def _copy(self, nodes: "_Nodes", ops: Iterable[tf.Operation]) -> None:
        for op in ops:
            if op in self._twins:
                continue
            if op.type in HANDLES:
                nodes.enter(_twin(op), nodes.outside(op.outputs[0]), tf.resource)
            elif op.type == READ:
                nodes.add(_twin(op), "OptionalGetValue", ["batch_of_step:1"], op.device, **_types_of(op))
            else:
                self._copy_op(nodes, op)

    def _copy_op(self, nodes: "_Nodes", op: tf.Operation) -> None:
        earlier = [each for each in op.control_inputs if each.type not in HANDLES]
        # Without an input from the step, an op would run once more, where the loop ends; functions may have such ops.
        if op.type in CALLS or not (earlier or any(tensor.op.type not in HANDLES for tensor in op.inputs)):
            if self._pivot is None:
                nodes.copy(op, [*self._inputs(nodes, op), "^pivot"])
                return
            nodes.run_after(_twin(op), self._pivot)
        controls = [f"^{_twin(each)}" for each in earlier if each not in self._twins]
        for each in earlier:
            if each in self._twins:
                nodes.run_after(_twin(op), self._twins[each])
        nodes.copy(op, [*self._inputs(nodes, op), *controls])

    def _inputs(self, nodes: "_Nodes", op: tf.Operation) -> list[str]:
        return [self._input(nodes, tensor) for tensor in op.inputs]

    def _input(self, nodes: "_Nodes", tensor: tf.Tensor) -> str:
        if tensor.op in self._twins:
            return nodes.outside(self._twins[tensor.op].outputs[tensor.value_index])
        return f"{_twin(tensor.op)}:{tensor.value_index}"

    def _add_outputs(self, elements: list[tf.Operation | tf.Tensor]) -> None:
        nodes, ops = _Nodes(), step_ops(elements)
        self._copy(nodes, ops)
        for index, element in enumerate(elements):
            name = f"output{index}"
            if isinstance(element, tf.Operation):
                value, dtype = f"{name}/done", tf.bool
                earlier = [] if element in self._twins else [f"^{_twin(element)}"]
                nodes.constant(value, False, dtype, *earlier)
                if not earlier:
                    nodes.run_after(value, self._twins[element])
            else:
                value, dtype = self._input(nodes, element), element.dtype
            first = b"" if dtype == tf.string else dtype.as_numpy_dtype()
            nodes.variable(name, first, dtype, value, nodes.outside(self._is_more))
        lasts = self._import(nodes, ops, [f"output{index}/last" for index in range(len(elements))])
        self._outputs |= {element: last.outputs[0] for element, last in zip(elements, lasts, strict=True)}

    def _import(self, nodes: "_Nodes", ops: Iterable[tf.Operation], wanted: list[str]) -> list[tf.Operation]:
        """Imports the nodes; returns those called `wanted`, and notes which are those of `ops`."""
        new = [op for op in ops if op not in self._twins]
        found = nodes.imported_into(self._graph, [*map(_twin, new), *wanted])
        self._twins |= dict(zip(new, found, strict=False))
        return found[len(new) :]


class _Nodes:
    """A GraphDef to import, whose nodes may have inputs from outside of it."""

    def __init__(self) -> None:
        self._graph_def = v1.GraphDef()
        self._graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
        self._outside: dict[str, tf.Tensor] = {}
        self._earlier: list[tuple[str, tf.Operation]] = []

    def outside(self, tensor: tf.Tensor) -> str:
        """Returns the name for a tensor of the graph as an input."""
        name = f"outside{len(self._outside)}"
        self._outside[name] = tensor
        return name

    def run_after(self, name: str, op: tf.Operation) -> None:
        """Lets the node called `name` wait for an op of the graph."""
        self._earlier.append((name, op))

    def add(self, name: str, kind: str, inputs: Sequence[str], device: str = "", **attributes: Any) -> str:
        node = self._graph_def.node.add(name=name, op=kind, input=inputs, device=device)
        for key, value in attributes.items():
            if isinstance(value, tf.DType):
                node.attr[key].type = value.as_datatype_enum
            elif isinstance(value, bool):
                node.attr[key].b = value
            elif isinstance(value, int):
                node.attr[key].i = value
            elif isinstance(value, str):
                node.attr[key].s = value.encode()
            else:
                node.attr[key].CopyFrom(value)
        return name

    def copy(self, op: tf.Operation, inputs: Sequence[str]) -> None:
        node = self._graph_def.node.add()
        node.CopyFrom(op.node_def)
        node.name = _twin(op)
        node.attr.pop("_class", None)  # the names of ops on the same device
        del node.input[:]
        node.input.extend(inputs)

    def constant(self, name: str, value: Any, dtype: tf.DType, *earlier: str) -> str:
        tensor = tf.make_tensor_proto(value, dtype, shape=[])
        return self.add(name, "Const", earlier, dtype=dtype, value=v1.AttrValue(tensor=tensor))

    def enter(self, name: str, of: str, dtype: tf.DType, is_constant: bool = True) -> str:
        return self.add(name, "Enter", [of], T=dtype, frame_name=_SCOPE, is_constant=is_constant, parallel_iterations=1)

    def variable(self, name: str, first: Any, dtype: tf.DType, following: str, is_more: str) -> None:
        """Adds a variable of the loop: `NAME/now` in an iteration, `/step` in one with a step, `/last` after all."""
        self.constant(f"{name}/first", first, dtype)
        self.enter(f"{name}/enter", f"{name}/first", dtype, is_constant=False)
        self.add(f"{name}/now", "Merge", [f"{name}/enter", f"{name}/next"], T=dtype, N=2)
        self.add(f"{name}/switch", "Switch", [f"{name}/now", is_more], T=dtype)
        self.add(f"{name}/step", "Identity", [f"{name}/switch:1"], T=dtype)
        self.add(f"{name}/next", "NextIteration", [following], T=dtype)
        self.add(f"{name}/last", "Exit", [f"{name}/switch"], T=dtype)

    def imported_into(self, graph: tf.Graph, names: list[str]) -> list[tf.Operation]:
        """Imports the nodes into the default graph; returns the ops of those called `names`."""
        names = [*names, *(name for name, _ in self._earlier)]
        ops = tf.import_graph_def(self._graph_def, self._outside, names, name=_SCOPE)
        count = len(names) - len(self._earlier)
        for op, (_, earlier) in zip(ops[count:], self._earlier, strict=True):
            private_tensorflow.run_after(op, [earlier])
        return ops[:count]


def _twin(op: tf.Operation) -> str:
    """Returns the name of an op's twin in the GraphDef."""
    return f"step/{op.name}"


def _types_of(read: tf.Operation) -> dict[str, Any]:
    attributes = read.node_def.attr
    return {key: attributes[key] for key in ("output_types", "output_shapes")}
