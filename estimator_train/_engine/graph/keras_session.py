"""KerasSession: weights that a model_fn gives to its Keras models become the initial values of its variables.

In a v1 graph, `set_weights`, `load_weights`, `load_model` and `weights="imagenet"` assign variables in a session that
Keras opens for that. The Estimator trains in a session of its own, and would initialize them again.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.graph import private_tensorflow, private_tf_keras
from estimator_train._engine.session.ancestors import ancestors

v1 = tf.compat.v1


class KerasSession:
    """The session of Keras on the default graph, opened when Keras first runs something."""

    def __init__(self, config: tf.compat.v1.ConfigProto | None) -> None:
        self.graph = v1.get_default_graph()
        self._config = config
        self._session: tf.compat.v1.Session | None = None
        self._initializers: dict[int, tf.Operation] = {}  # of the variables that were given values, at that time

    @property
    def is_open(self) -> bool:
        return self._session is not None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened(), name)

    def run(self, fetches: Any, feed_dict: dict[Any, Any] | None = None, *options: Any) -> Any:
        results = self._opened().run(fetches, feed_dict, *options)
        fetched = [self.graph.as_graph_element(fetch) for fetch in tf.nest.flatten(fetches, expand_composites=True)]
        ran = ancestors(getattr(fetch, "op", fetch) for fetch in fetched)
        assigns = {op for op in ran if op.type.startswith("Assign") and op.inputs}
        for part in (part for variable in v1.global_variables() for part in _parts(variable)):
            assigned = {op for op in assigns if op.inputs[0].op is part.op}
            if assigned - {part.initializer}:
                self._initializers[id(part)] = part.initializer
        return results

    def initial_values(self) -> dict[tf.Tensor, np.ndarray]:
        """Returns the values given to variables, by the tensors to feed, unless another initializer has come since."""
        loads = _loads_not_run(self.graph)
        if loads:
            self.run(loads)
        if not self._initializers:
            return {}
        given, fed = [], []
        for variable in v1.global_variables():
            parts = _parts(variable)
            of_value = next((part for part in parts if self._initializers.get(id(part)) is part.initializer), None)
            if of_value is not None:
                given.append(of_value)
                fed.append([part.initializer.inputs[1] for part in parts])
        values = self._opened().run(given)
        return {tensor: value for tensors, value in zip(fed, values, strict=True) for tensor in tensors}

    def _opened(self) -> tf.compat.v1.Session:
        if self._session is None:
            config = private_tensorflow.session_config()
            config.MergeFrom(self._config or v1.ConfigProto())
            config.allow_soft_placement = True  # Keras asks on the device of one replica for another's variables
            self._session = v1.Session(graph=self.graph, config=config)
        return self._session


def _loads_not_run(graph: tf.Graph) -> list[tf.Operation]:
    """Returns the ops of a v1 graph that assign weights from a .keras or .weights.h5 file, which Keras does not run."""
    variables = graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)
    initializers = {part.initializer for variable in variables for part in _parts(variable)}
    return [
        op
        for op in graph.get_operations()
        if op.type == "AssignVariableOp"
        and op not in initializers  # loading creates these, too, and those of zeros have a constant
        and op.inputs[1].op.type == "Const"
        and private_tf_keras.is_of_loading(op)
    ]


def _parts(variable: tf.Variable) -> tuple[tf.Variable, ...]:
    """Returns the variables of the replicas that a variable consists of, or itself."""
    return tf.distribute.get_strategy().experimental_local_results(variable)
