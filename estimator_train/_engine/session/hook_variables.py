"""The model's variables in a hook graph, for hooks that restore, assign or read them."""

import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from estimator_train._engine.session.ancestors import ancestors
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train._engine.types import Session

v1 = tf.compat.v1

_READS = ("ReadVariableOp", "VarIsInitializedOp", "VariableShape", "ResourceGather", "ResourceGatherNd")


class ModelVariables(Protocol):
    """The variables of the model whose steps a `FunctionSession` runs."""

    def variable_specs(self) -> dict[str, tuple[tf.TensorSpec, bool]]:
        """Returns {name: (type, whether the model trains it)}; raises ValueError if hooks cannot use the variables."""

    def variable_values(self, names: Iterable[str]) -> list[np.ndarray]: ...

    def assign(self, values: dict[str, np.ndarray]) -> None: ...


class LazyGraph(tf.Graph):
    """A v1 graph that calls `create_variables` when somebody asks for its variables."""

    create_variables: Callable[[], None] | None = None

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        self._create_variables(name)
        return super().get_collection(name, scope)

    def get_collection_ref(self, name: str) -> list[Any]:
        self._create_variables(name)
        return super().get_collection_ref(name)

    def _create_variables(self, name: str) -> None:
        create = self.create_variables
        if create is None or name not in (v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.TRAINABLE_VARIABLES):
            return
        # A FileWriter, which describes the graph with its collections, asks when a summary hook begins.
        if not traceback.extract_stack(limit=3)[0].filename.endswith("meta_graph.py"):
            self.create_variables = None
            create()


class _Copy(NamedTuple):
    """A variable of the hook graph, with its first initializer: a hook may give it another."""

    variable: tf.Variable
    initializer: tf.Operation


class HookVariables:
    """Copies of the model's variables in a hook graph, created when a hook first asks the graph for variables.

    A copy gets the model's value before an op reads it, and the model the value that an op assigns to the copy.
    """

    def __init__(self, graph: LazyGraph, model: ModelVariables | None) -> None:
        self._graph = graph
        self._model = model
        self._copies: dict[str, _Copy] = {}
        self._current: set[str] = set()  # the copies that have the model's value
        self._used: dict[tuple[str, ...], tuple[set[str], ...]] = {}
        if model is not None:
            graph.create_variables = self._create

    def finish(self) -> None:
        """Ends the creation of copies, before the library itself asks the graph for all variables."""
        self._graph.create_variables = None

    def expire(self) -> None:
        """Notes that the model's variables have changed."""
        self._current.clear()

    def initialized_by_hooks(self) -> set[str]:
        """Returns the names of the variables that hooks have given another initializer, as `warm_start` does."""
        return {name for name, copy in self._copies.items() if copy.variable.initializer is not copy.initializer}

    def used_by(self, fetches: Iterable[Any]) -> tuple[set[str], set[str]]:
        """Returns the names of the variables that a run of `fetches` needs, and of those that it assigns."""
        if not self._copies:
            return set(), set()
        parts = tf.nest.flatten(list(fetches), expand_composites=True)
        ops = [getattr(element, "op", element) for element in map(self._graph.as_graph_element, parts)]
        key = tuple(op.name for op in ops)
        if key not in self._used:
            run = ancestors(ops)
            # Initializers that no hook has replaced do not assign: their zeros are not the model's initial values.
            zeroed = {name for name, copy in self._copies.items() if copy.initializer in run}
            needed = {name for name, copy in self._copies.items() if copy.variable.op in run} - zeroed
            assigned = {name for name in needed if self._is_assigned(self._copies[name].variable, run)}
            self._used[key] = needed, assigned, zeroed
        needed, assigned, zeroed = self._used[key]
        self._current -= zeroed
        return needed, assigned

    def load(self, session: Session, names: set[str]) -> None:
        """Gives copies the model's values in `session`, a session on the graph; call it in graph mode."""
        stale = sorted(names - self._current)
        if not stale or self._model is None:
            return
        with eager_mode():
            values = self._model.variable_values(stale)
        initializers = [self._copies[name].initializer for name in stale]
        session.run(initializers, {op.inputs[1]: value for op, value in zip(initializers, values, strict=True)})
        self._current.update(stale)

    def store(self, session: Session, names: set[str]) -> None:
        """Gives the model the copies' values in `session`; call it in graph mode."""
        if not names or self._model is None:
            return
        values = session.run({name: self._copies[name].variable for name in names})
        with eager_mode():
            self._model.assign(values)
        self._current.update(names)

    def _create(self) -> None:
        assert self._model is not None
        with eager_mode():
            specs = self._model.variable_specs()
        root = v1.VariableScope(reuse=False, use_resource=True)
        with (
            self._graph.as_default(),
            self._graph.device(None),
            self._graph.control_dependencies(None),
            self._graph.name_scope(None),
            v1.variable_scope(root, auxiliary_name_scope=False),
        ):
            for name, (spec, is_trained) in specs.items():
                zeros = v1.zeros_initializer()
                variable = v1.get_variable(name, spec.shape, spec.dtype, initializer=zeros, trainable=is_trained)
                self._copies[name] = _Copy(variable, variable.initializer)

    @staticmethod
    def _is_assigned(variable: tf.Variable, run: set[tf.Operation]) -> bool:
        return any(op in run and op.type not in _READS for op in variable.op.outputs[0].consumers())
