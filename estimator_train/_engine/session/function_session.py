"""Runs tf.function steps behind the tf.compat.v1.Session interface.

A Keras model trains as TF 2, but MonitoredSession and every SessionRunHook expect a v1 session. A small v1 graph, the
hook graph, connects them: it has a placeholder for each value of a step, the global step, and a no-op that represents
the step itself. `FunctionSession.run` runs the compiled step when that op is fetched, and answers the other fetches
from the step's values. Named tensors, ops added by a hook's `begin()` and v1 summaries therefore all work. If a hook
asks for variables, the graph gets copies of the model's; see `hook_variables`.
"""

import contextlib
import dataclasses
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.fetches import map_fetches
from estimator_train._engine.session.hook_variables import HookVariables, LazyGraph, ModelVariables
from estimator_train._engine.session.private_tensorflow import eager_mode, global_step_read
from estimator_train._engine.types import Scaffold, Session

v1 = tf.compat.v1


class HookGraph:
    """The v1 graph that hooks see in a run of tf.function steps."""

    def __init__(self, specs: dict[str, tf.TypeSpec], model: ModelVariables | None = None) -> None:
        """`specs` has the types of the values by name; `model` is None if hooks do not see the model's variables."""
        self.graph = LazyGraph()
        with self.graph.as_default():
            self.global_step = v1.train.create_global_step()
            self.global_step_read = global_step_read()  # what TensorFlow's hooks fetch for the global step
            self.step_op = tf.no_op(name="train_op")  # represents one step
            self.values = {  # by their names in the step: "loss" is the tensor "loss:0"
                name: v1.placeholder(spec.dtype, spec.shape, name=_scope_name(name)) for name, spec in specs.items()
            }
            for tensor in self.model_values.values():
                v1.add_to_collection(step_outputs.MODEL_VALUES, tensor)
            # Scaffold's init ops initialize everything that hooks can add, and nothing is restored. Scaffold's check
            # for uninitialized variables is therefore not needed; building it would take longer than all the rest.
            self.ready_op = tf.constant([], tf.string)
            self._next_step = v1.placeholder(tf.int64, [], name="next_global_step")
            self._set_step = v1.assign(self.global_step, self._next_step)
        self.variables = HookVariables(self.graph, model)  # for hooks that use the model's

    @property
    def model_values(self) -> dict[str, tf.Tensor]:
        """The entries of `values` that are the model's own."""
        return {name: tensor for name, tensor in self.values.items() if not name.startswith(step_outputs.OWN)}

    @property
    def batch_tensors(self) -> list[tf.Tensor]:
        """The entries of `values` that are parts of an evaluated batch, in order."""
        return [tensor for name, tensor in self.values.items() if name.startswith(step_outputs.BATCH)]

    def load_step(self, session: Session, step: int) -> None:
        """Updates the hook graph's global step in `session`, a real v1 session; call it in graph mode."""
        session.run(self._set_step, {self._next_step: step})


@dataclasses.dataclass(eq=False)
class FunctionSessionCreator(tf.compat.v1.train.SessionCreator):
    """Creates FunctionSessions for a MonitoredSession."""

    scaffold: Scaffold
    hook_graph: HookGraph
    steps: "Steps"
    triggers: Iterable[tf.Operation | tf.Tensor]
    is_restored: bool = False  # whether the steps start from a checkpoint, and initializers of variables do not count

    def create_session(self) -> "FunctionSession":
        # Some datasets add functions to the default graph, and the hook graph of a session after an error is final.
        with tf.Graph().as_default(), eager_mode():
            self.steps.start()
        self.hook_graph.variables.finish()
        self.scaffold.finalize()
        session = FunctionSession(self._open_session, self.hook_graph, self.steps, self.triggers)
        if not self.is_restored:
            session.take_initial_values()
        self.is_restored = True  # by `steps`, if there is another session after an error
        return session

    def _open_session(self) -> Session:
        manager = v1.train.SessionManager(
            local_init_op=self.scaffold.local_init_op,
            ready_op=self.scaffold.ready_op,
            ready_for_local_init_op=self.scaffold.ready_for_local_init_op,
            graph=self.hook_graph.graph,
        )
        # The ops that hooks add are small, so they run on the CPU and leave GPU memory to the steps.
        config = v1.ConfigProto(device_count={"GPU": 0})
        return manager.prepare_session("", init_op=self.scaffold.init_op, config=config)


class Steps(Protocol):
    """Compiled steps, which a `FunctionSession` runs."""

    global_step: int
    returning: threading.Lock  # keeps the thread in a call from returning

    def start(self) -> None:
        """Called before the first step of each session."""

    def __call__(self) -> dict[str, Any]:
        """Runs a call and returns its values by name; raises tf.errors.OutOfRangeError at the end of the data."""

    def batches_if_idle(self) -> int | None:
        """Returns the number of batches read if another thread is in a call and waits for input, or else None."""

    def count_steps_done(self) -> None:
        """Sets `global_step` to the steps done in a call that has not returned yet."""


class FunctionSession:
    """Runs compiled steps for MonitoredSession and answers its fetches.

    `open_session()` returns an initialized v1 session on the hook graph; it is called only if a fetch is not a value of
    the step. A call of `steps` runs when a fetch is among `triggers`. Ops of an input_fn's own graph, as of an iterator
    that a hook initializes, run in the session that reads its batches.

    As in a v1 graph, a global step fetched together with the step is the one before the update, one less than the
    variable; hooks that need the new value fetch it on its own.
    """

    is_interrupted = False  # whether a hook stops the training for a later one to resume
    sess_str = ""  # the target of a session in this process

    def __init__(
        self,
        open_session: Callable[[], Session],
        hook_graph: HookGraph,
        steps: Steps,
        triggers: Iterable[tf.Operation | tf.Tensor],
    ) -> None:
        self.graph = hook_graph.graph
        self._open_session = open_session
        self._session: Session | None = None
        self._hook_graph = hook_graph
        self._steps = steps
        self._names = {id(tensor): name for name, tensor in hook_graph.values.items()}
        self._triggers = {id(fetch) for fetch in triggers}
        self._step_reads = {id(hook_graph.global_step), id(hook_graph.global_step_read)}
        self._loaded_step: int | None = None
        self._values = {}

    def run(
        self,
        fetches: Any,
        feed_dict: dict[tf.Tensor, Any] | None = None,
        options: tf.compat.v1.RunOptions | None = None,
        run_metadata: tf.compat.v1.RunMetadata | None = None,
    ) -> Any:
        """Like `tf.compat.v1.Session.run`; takes any structure of tensors, ops, variables and names."""
        leaves = {}
        map_fetches(lambda fetch: leaves.setdefault(id(element := self._element(fetch)), element), fetches)
        with eager_mode():
            step = self._steps.global_step
            if not self._triggers.isdisjoint(leaves):
                self._hook_graph.variables.expire()
                self._values = self._steps()
                step = max(step, self._steps.global_step - 1)  # evaluation does not change it
            answers: dict[int, Any] = dict.fromkeys(self._triggers) | dict.fromkeys(self._step_reads, np.int64(step))
            names = {key: name for key, name in self._names.items() if key in leaves and name in self._values}
            answers |= {key: _numpy(self._values[name]) for key, name in names.items()}
            left = {key: leaf for key, leaf in leaves.items() if key not in answers}
            of_input = {key: left.pop(key) for key in list(left) if _is_of_input(left[key])}
            if of_input:
                answers.update(zip(of_input, _run_input(list(of_input.values()), feed_dict), strict=True))
            if left:
                results = self._run_hook_graph(list(left.values()), step, feed_dict, options, run_metadata)
                answers.update(zip(left, results, strict=True))
        return map_fetches(lambda fetch: answers[id(self._element(fetch))], fetches)

    def take_initial_values(self) -> None:
        """Gives the model the values that hooks have its variables initialized with, such as a warm start's."""
        names = self._hook_graph.variables.initialized_by_hooks()
        if names:
            with self.graph.as_default():
                self._hook_graph.variables.store(self._opened(), names)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def batches_if_idle(self) -> int | None:
        """Returns the number of batches read if another thread is in `run` and waits for input, or else None."""
        with eager_mode():
            return self._steps.batches_if_idle()

    @contextlib.contextmanager
    def steps_done(self) -> Iterator[None]:
        """While another thread waits in `run`, gives the steps done to the block, and keeps that thread waiting."""
        with self._steps.returning:
            with eager_mode():
                self._steps.count_steps_done()
            with self.graph.as_default():
                yield

    def _element(self, fetch: Any) -> Any:
        """Looks up a name in the graph; returns anything else, such as a tensor or a sparse tensor, unchanged."""
        return self.graph.as_graph_element(fetch) if isinstance(fetch, str) else fetch

    def _run_hook_graph(
        self,
        fetches: list[Any],
        step: int,
        feed_dict: dict[tf.Tensor, Any] | None,
        options: tf.compat.v1.RunOptions | None,
        run_metadata: tf.compat.v1.RunMetadata | None,
    ) -> list[Any]:
        values = [(self._hook_graph.values[name], _numpy(value)) for name, value in self._values.items()]
        variables = self._hook_graph.variables
        with self.graph.as_default():
            session = self._opened()
            if step != self._loaded_step:
                self._hook_graph.load_step(session, step)
                self._loaded_step = step
            needed, assigned = variables.used_by(fetches)
            variables.load(session, needed)
            feeds = dict(values)  # symbolic tensors can be dict keys only in graph mode
            results = session.run(fetches, feeds | (feed_dict or {}), options, run_metadata)
            variables.store(session, assigned)
            return results

    def _opened(self) -> Session:
        if self._session is None:
            self._session = self._open_session()
        return self._session


def _is_of_input(fetch: Any) -> bool:
    """Returns whether a fetch is of the graph that an input_fn has instead of a dataset."""
    graph = getattr(fetch, "graph", None)
    return graph is not None and bool(graph.get_collection(step_outputs.INPUT_SESSION))


def _run_input(fetches: list[Any], feed_dict: dict[tf.Tensor, Any] | None) -> list[Any]:
    """Runs fetches of an input_fn's graph in the session that reads its batches."""
    (open_session,) = fetches[0].graph.get_collection(step_outputs.INPUT_SESSION)
    return open_session().run(fetches, feed_dict)


def _numpy(value: tf.Tensor | tf.Variable | np.ndarray) -> np.ndarray:
    return value.numpy() if hasattr(value, "numpy") else value


def _scope_name(name: str) -> str:
    """Replaces characters that are invalid in a v1 graph's names, as in "<lambda>", the name of a lambda metric."""
    return re.sub(r"^[^A-Za-z0-9.]", ".", re.sub(r"[^A-Za-z0-9_.\\/-]", "_", name))
