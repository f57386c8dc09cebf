"""FunctionSession with a fake step returns any structure of fetches from the step's values."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.function_session import FunctionSession, FunctionSessionCreator, HookGraph

v1 = tf.compat.v1


class Steps:
    """Step n has the loss 10 n; the data ends after `last`."""

    def __init__(self, first=0, last=100):
        self.global_step = first
        self.last = last
        self.starts = 0

    def start(self):
        self.starts += 1

    def __call__(self):
        if self.global_step == self.last:
            raise tf.errors.OutOfRangeError(None, None, "end")
        self.global_step += 1
        loss = np.float32(10 * self.global_step)
        return {"loss": tf.constant(loss), "table": tf.Variable([loss, loss]), step_outputs.STEPS: np.int64(1)}


SPECS = {
    "loss": tf.TensorSpec([], tf.float32),
    "table": tf.TensorSpec([None], tf.float32),
    step_outputs.STEPS: tf.TensorSpec([], tf.int64),
}


@pytest.fixture
def hook_graph():
    return HookGraph(SPECS)


@pytest.fixture
def open_session(hook_graph):
    """Opens a FunctionSession on the current hook graph."""
    sessions = []

    def open_session(steps=None, triggers=None):
        session = v1.Session(graph=hook_graph.graph)
        with hook_graph.graph.as_default():
            session.run(v1.global_variables_initializer())
        sessions.append(
            FunctionSession(lambda: session, hook_graph, steps or Steps(), triggers or [hook_graph.step_op])
        )
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()


def test_the_hook_graph_names_the_values(hook_graph):
    graph = hook_graph.graph
    assert graph.get_tensor_by_name("loss:0") is hook_graph.values["loss"]
    assert hook_graph.model_values.keys() == {"loss", "table"}
    assert graph.get_collection(step_outputs.MODEL_VALUES) == list(hook_graph.model_values.values())
    assert step_outputs.find(graph, step_outputs.STEPS) is hook_graph.values[step_outputs.STEPS]
    assert step_outputs.find(graph, step_outputs.EXAMPLES) is None


def test_names_that_a_v1_graph_does_not_take_are_changed():
    values = HookGraph({name: tf.TensorSpec([], tf.float32) for name in ("<lambda>", "top 5", "_own", "µ")}).values
    assert list(values) == ["<lambda>", "top 5", "_own", "µ"]
    assert values["top 5"].name == "top_5:0"


def test_the_step_runs_once_a_call_and_only_when_its_op_is_fetched(hook_graph, open_session):
    steps = Steps()
    session = open_session(steps)
    loss = hook_graph.values["loss"]
    assert session.run([hook_graph.step_op, hook_graph.step_op, loss]) == [None, None, 10]
    assert steps.global_step == 1
    assert session.run(loss) == 10  # the last step's
    assert steps.global_step == 1
    assert session.run(hook_graph.step_op) is None
    assert steps.global_step == 2


Pair = collections.namedtuple("Pair", ["one", "two"])


def test_every_structure_of_fetches_comes_back_as_it_was(hook_graph, open_session):
    session = open_session()
    loss, step_op = hook_graph.values["loss"], hook_graph.step_op
    key = object()
    fetches = {
        "caller": [step_op, loss],
        key: Pair("loss:0", {"nested": ("loss:0", [loss])}),
        3: [],
        "ordered": collections.OrderedDict(b=loss, a="train_op"),
    }
    results = session.run(fetches)
    assert results == {
        "caller": [None, 10],
        key: Pair(10, {"nested": (10, [10])}),
        3: [],
        "ordered": {"b": 10, "a": None},
    }
    assert isinstance(results[key], Pair)
    assert list(results["ordered"]) == ["b", "a"]


def test_values_come_back_as_numpy(hook_graph, open_session):
    loss, table, _ = open_session().run([hook_graph.values["loss"], hook_graph.values["table"], hook_graph.step_op])
    assert isinstance(loss, np.float32)
    assert isinstance(table, np.ndarray)
    np.testing.assert_array_equal(table, [10, 10])


def test_ops_that_a_hook_added_see_the_values_the_variables_and_the_feeds(hook_graph, open_session):
    with hook_graph.graph.as_default():
        scale = v1.placeholder(tf.float32, [], name="scale")
        scaled = tf.multiply(hook_graph.values["loss"], scale, name="scaled")
        total = v1.get_variable("total", [], initializer=v1.zeros_initializer())
        add = v1.assign_add(total, scaled)
        sparse = v1.SparseTensor([[0]], tf.reshape(scaled, [1]), [1])
    session = open_session()
    _, value = session.run([hook_graph.step_op, scaled], {scale: 2})
    assert value == 20
    assert session.run(["scaled:0", hook_graph.step_op], {scale: 3})[0] == 60
    assert session.run([add, hook_graph.step_op], {scale: 1})[0] == 30
    assert session.run([add, hook_graph.step_op], {"scale:0": 1})[0] == 70
    assert session.run(total) == 70
    assert session.run(sparse, {scale: 0.5}).values.tolist() == [20]


def test_the_global_step_fetched_with_the_step_is_that_of_the_last_update(hook_graph, open_session):
    with hook_graph.graph.as_default():
        read = v1.train.get_global_step()
        doubled = 2 * read
        hook = v1.train.StopAtStepHook(last_step=9)
        hook.begin()
        by_hook = hook.before_run(None).fetches
    session = open_session(Steps(first=5))
    assert session.run([read, doubled]) == [5, 10]
    assert session.run([hook_graph.step_op, read, doubled]) == [None, 5, 10]
    assert session.run([read, doubled]) == [6, 12]
    assert session.run([hook_graph.step_op, doubled, by_hook])[1:] == [12, 6]
    assert session.run(doubled) == 14


def test_the_end_of_the_data_is_raised_and_the_values_stay(hook_graph, open_session):
    session = open_session(Steps(last=1))
    session.run(hook_graph.step_op)
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(hook_graph.step_op)
    assert session.run([hook_graph.values["loss"], hook_graph.global_step]) == [10, 1]


def test_any_of_the_triggers_steps(hook_graph, open_session):
    steps = Steps()
    session = open_session(steps, triggers=list(hook_graph.values.values()))
    assert session.run({"table": hook_graph.values["table"]})["table"].tolist() == [10, 10]
    assert session.run("loss:0") == 20
    assert session.run(hook_graph.global_step) == steps.global_step == 2


def test_a_fetch_of_another_graph_is_refused(hook_graph, open_session):
    with tf.Graph().as_default():
        other = tf.constant(1)
    with pytest.raises((TypeError, ValueError)):
        open_session().run([other])
    with pytest.raises((KeyError, ValueError), match="absent"):
        open_session().run("absent:0")


def test_a_monitored_session_drives_it_to_the_end_of_the_data(hook_graph):
    steps = Steps(last=3)
    losses = []
    with hook_graph.graph.as_default():
        creator = FunctionSessionCreator(v1.train.Scaffold(), hook_graph, steps, [hook_graph.step_op])
        with v1.train.MonitoredSession(creator) as session:
            while not session.should_stop():
                losses.append(session.run([hook_graph.step_op, hook_graph.values["loss"]])[1])
    assert losses == [10, 20, 30]
    assert steps.starts == 1
    assert tf.executing_eagerly()
