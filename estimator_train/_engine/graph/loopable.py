"""Which steps of a v1 graph can run many times in one call and give what as many single calls give."""

import re
from collections.abc import Container, Iterable, Sequence

import tensorflow as tf

from estimator_train._engine.graph import private_tensorflow
from estimator_train._engine.session.ancestors import ancestors
from estimator_train._engine.session.private_tensorflow import global_step_read

# Ops that return the handle of something outside: a step in a loop uses the same variables, iterator and tables.
HANDLES = frozenset(
    ("VarHandleOp", "IteratorV2", "HashTableV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2")
    + ("MutableDenseHashTableV2",)
)
READ = "IteratorGetNext"
# Ops whose kernels hold the state of their random numbers: a step must always run the same kernel, in a loop or alone.
DRAWS = frozenset(
    ("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "RandomShuffle", "Multinomial")
    + ("RandomGamma", "RandomPoissonV2", "LogUniformCandidateSampler", "UniformCandidateSampler")
)
# Other ops with effects, none of which is kept in a kernel. What is not listed may keep some, as a queue's ops do.
_EFFECTS = re.compile(
    "ReadVariableOp|VariableShape|VarIsInitializedOp|Assign(Add|Sub)?VariableOp|Resource(Sparse)?Apply\\w+"
    "|Resource(Scatter|Gather)\\w+|ResourceGather|LookupTable(Find|Size|Insert)V2|Assert|Print|PrintV2"
)
_LOOKS = re.compile("ReadVariableOp|VariableShape|VarIsInitializedOp|ResourceGather(Nd)?|LookupTable(Find|Size)V2")
_PASSING = frozenset(("Identity", "Switch", "Merge"))
_PYTHON = frozenset(("PyFunc", "EagerPyFunc"))
CALLS = frozenset(("StatefulPartitionedCall", "If", "While", "Case"))
_LOOPS = frozenset(("While", "StatelessWhile", "Enter", "MapDefun"))
_NOT_IN_LOOPS = frozenset(
    ("Placeholder", "PlaceholderWithDefault", "PlaceholderV2", "Enter", "RefEnter", "Exit", "RefExit", "NextIteration")
)
_CONSTANT_BYTES = 1 << 24  # more are not copied
_REFERENCES = 100  # data types of references have larger numbers


def step_ops(elements: Iterable[tf.Operation | tf.Tensor]) -> set[tf.Operation]:
    """Returns the ops that run when `elements` are fetched."""
    return ancestors(getattr(element, "op", element) for element in elements)


def refusal(ops: Iterable[tf.Operation]) -> str | None:
    """Returns why `ops`, all those of a step, cannot run in a loop; None if they can."""
    ops = set(ops)
    reads = [op for op in ops if op.type == READ]
    if len(reads) > 1:
        return f"{len(reads)} iterators give its input"
    if not reads and any(op.type in _PYTHON for op in ops):
        return "a Python function may be its input"
    if sum(_constant_bytes(op) for op in ops) > _CONSTANT_BYTES:
        return f"it has more than {_CONSTANT_BYTES >> 20} MB of constants"
    why = next((why for op in ops if (why := _refusal(op))), None)
    if why is not None:
        return why
    why, writers = _inspect_functions(ops)
    return why or _race(ops, writers)


def _refusal(op: tf.Operation) -> str | None:
    if any(tensor.dtype.as_datatype_enum > _REFERENCES for tensor in (*op.inputs, *op.outputs)):
        return f"{op.name} is or uses a reference variable"
    if op.type in _NOT_IN_LOOPS:
        return f"{op.name} is a {op.type}"
    known = op.type in HANDLES or op.type in DRAWS or op.type == READ or op.type in CALLS
    if op.op_def.is_stateful and not known and not _has_known_effects(op.type):
        return f"{op.name}, a {op.type}, may keep a state of its own"
    return None


def _has_known_effects(kind: str) -> bool:
    return kind in _PYTHON or _EFFECTS.fullmatch(kind) is not None


def _race(ops: set[tf.Operation], writers: set[str]) -> str | None:
    """Returns which variable or table a step reads and changes in no fixed order, if there is one.

    Single steps and loops then differ in which is first, most of the time. `writers`: the functions that change any.
    """
    uses: dict[tf.Operation, list[tf.Operation]] = {}
    for op in ops:
        for tensor in op.inputs:
            if tensor.dtype == tf.resource and op.type not in _PASSING and op.type != READ:
                uses.setdefault(_handle(tensor), []).append(op)
    changing = {op for used in uses.values() for op in used if _changes(op, writers)}
    bits = {op: 1 << index for index, op in enumerate({op for used in uses.values() for op in used})}
    earlier: dict[tf.Operation, int] = {}  # the uses that an op waits for
    for op in _in_order(ops):
        needed = (*op.control_inputs, *(tensor.op for tensor in op.inputs))
        earlier[op] = 0
        for each in needed:
            earlier[op] |= earlier[each] | bits.get(each, 0)
    for handle, used in uses.items():
        for change in changing.intersection(used):
            for other in used:
                if other is not change and not (earlier[change] & bits[other] or earlier[other] & bits[change]):
                    return f"{other.name} and {change.name} use {handle.name} in any order"
    return None


def _handle(tensor: tf.Tensor) -> tf.Operation:
    while tensor.op.type in _PASSING:
        tensor = tensor.op.inputs[0]
    return tensor.op


def _in_order(ops: set[tf.Operation]) -> list[tf.Operation]:
    """Returns `ops`, which have all that they need among them, each after those that it needs."""
    ordered: dict[tf.Operation, None] = {}
    stack = list(ops)
    while stack:
        op = stack[-1]
        needed = [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
        waiting = [each for each in needed if each not in ordered]
        if waiting:
            stack += waiting
        else:
            ordered[stack.pop()] = None
    return list(ordered)


def _changes(op: tf.Operation, writers: set[str]) -> bool:
    if op.type in CALLS:
        return not writers.isdisjoint(_functions_named_by(op.node_def.attr.values()))
    return not _LOOKS.fullmatch(op.type)


def _inspect_functions(ops: set[tf.Operation]) -> tuple[str | None, set[str]]:
    """Returns why the functions that `ops` call cannot run in a loop, and which of them change variables or tables."""
    callers: dict[str, set[str]] = {}
    writers: set[str] = set()
    functions = _functions_called_by(ops)
    for name, nodes in functions.items():
        if nodes is None:
            return f"{name} is not a function of its graph", writers
        for node in nodes:
            called = _functions_called_in(node, functions)
            for each in called:
                callers.setdefault(each, set()).add(name)
            if called or not private_tensorflow.is_stateful(node.op):
                continue
            if not _has_known_effects(node.op):
                return f"{node.name}, a {node.op} in a function, may keep a state of its own", writers
            if not _LOOKS.fullmatch(node.op):
                writers.add(name)
    queue = list(writers)
    while queue:
        new = callers.get(queue.pop(), set()) - writers
        writers |= new
        queue += new
    return None, writers


def _functions_called_by(ops: set[tf.Operation]) -> dict[str, Sequence[tf.compat.v1.NodeDef] | None]:
    """Returns {name of a function that `ops` or what they call may call: its nodes, None if its graph has none}."""
    queue = [name for op in ops if _has_functions(op) for name in _functions_named_by(op.node_def.attr.values())]
    if not queue:
        return {}
    library = next(iter(ops)).graph.as_graph_def().library
    known = {function.signature.name: function.node_def for function in library.function}
    found: dict[str, Sequence[tf.compat.v1.NodeDef] | None] = {}
    while queue:
        name = queue.pop()
        if name not in found:
            found[name] = known.get(name)
            queue += (each for node in found[name] or () for each in _functions_called_in(node, known))
    return found


def _functions_called_in(node: tf.compat.v1.NodeDef, functions: Container[str]) -> list[str]:
    return [*_functions_named_by(node.attr.values()), *[node.op] * (node.op in functions)]


def _has_functions(op: tf.Operation) -> bool:
    """Returns whether an op may call functions; asking each for its NodeDef would take long in a large graph."""
    return any(attribute.type in ("func", "list(func)") for attribute in op.op_def.attr)


def _functions_named_by(attributes: Iterable[tf.compat.v1.AttrValue]) -> Iterable[str]:
    for attribute in attributes:
        if attribute.func.name:
            yield attribute.func.name
        yield from (function.name for function in attribute.list.func)


def _constant_bytes(op: tf.Operation) -> int:
    if op.type != "Const":
        return 0
    return op.outputs[0].shape.num_elements() * op.outputs[0].dtype.size


def suit_one_thread(ops: set[tf.Operation]) -> bool:
    """Returns whether the thread that calls may run `ops`, each as soon as it can, waiting for nothing but data.

    TensorFlow then begins what an op has made ready inside of this op, if it is not done at once. A loop among `ops`
    could nest so deep that no stack is left.
    """
    if any(_refusal(op) for op in ops):
        return False
    functions = _functions_called_by(ops).values()
    if any(nodes is None for nodes in functions):
        return False
    kinds = {op.type for op in ops} | {node.op for nodes in functions for node in nodes or ()}
    return kinds.isdisjoint(_PYTHON | _LOOPS)


def changes_without_data(ops: set[tf.Operation]) -> bool:
    """Returns whether some of `ops`, all those of a step, change something although they need nothing of its batch."""
    fed = {op for op in ops if op.type == READ}
    size = 0
    while len(fed) > size:
        size = len(fed)
        fed |= {op for op in ops if not fed.isdisjoint((*op.control_inputs, *(tensor.op for tensor in op.inputs)))}
    unfed = ops - fed - step_ops([global_step_read()])
    return any(
        op.op_def.is_stateful and op.type not in HANDLES | DRAWS and not _LOOKS.fullmatch(op.type) for op in unfed
    )


def counts_by_one(ops: set[tf.Operation], step: tf.Variable) -> bool:
    """Returns whether `ops`, all those of a step, add one to the global step `step`, and change it in no other way."""
    if not isinstance(getattr(step, "handle", None), tf.Tensor):
        return False
    reads = step_ops([global_step_read()])
    changes = [op for op in step.handle.consumers() if op in ops - reads and op.type != "ReadVariableOp"]
    if [op.type for op in changes] != ["AssignAddVariableOp"]:
        return False
    return tf.get_static_value(changes[0].inputs[1]) == 1
