"""Copies of a fake model's variables in a hook graph follow the model, and the model follows them."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_train._engine.session.function_session import FunctionSessionCreator, HookGraph

v1 = tf.compat.v1


class Model:
    """A model with two variables, and the steps that add one to each of them."""

    global_step = 0

    def __init__(self):
        self.values = {"dense/kernel": np.float32([[2, 2]]), "mean": np.float32([7])}
        self.reads = []

    def variable_specs(self):
        return {name: (tf.TensorSpec(value.shape), name != "mean") for name, value in self.values.items()}

    def variable_values(self, names):
        self.reads += names
        return [self.values[name] for name in names]

    def assign(self, values):
        self.values |= values

    def start(self):
        pass

    def __call__(self):
        self.global_step += 1
        self.values = {name: value + 1 for name, value in self.values.items()}
        return {}


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def hook_graph(model):
    return HookGraph({}, model)


@pytest.fixture
def open_session(hook_graph, model):
    sessions = []

    def open_session(is_restored=False):
        with hook_graph.graph.as_default():
            creator = FunctionSessionCreator(v1.train.Scaffold(), hook_graph, model, [hook_graph.step_op], is_restored)
            sessions.append(creator.create_session())
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()


def test_copies_are_read_once_a_step_and_assigned_to_the_model(hook_graph, model, open_session):
    with hook_graph.graph.as_default(), tf.name_scope("scope"), v1.variable_scope("scope"):
        (kernel,) = v1.trainable_variables()
        total, add = tf.reduce_sum(kernel), kernel.assign_add([[1, 2]])
        initialize = v1.global_variables_initializer()
    assert kernel.op.name == "dense/kernel"
    session = open_session()
    assert model.reads == []
    assert session.run([total, kernel])[0] == session.run(total) == 4
    assert model.reads == ["dense/kernel"]
    assert session.run([hook_graph.step_op, total])[1] == 6
    session.run(add)
    assert model.values["dense/kernel"].tolist() == [[4, 5]] and model.values["mean"] == [8]
    session.run(initialize)
    assert session.run(total) == 9 and model.values["dense/kernel"].tolist() == [[4, 5]]
    assert model.reads == ["dense/kernel"] * 3


@pytest.mark.parametrize(("is_restored", "expected"), [(False, [[5, 5]]), (True, [[2, 2]])])
def test_an_initializer_of_a_hook_counts_without_a_checkpoint(
    is_restored, expected, hook_graph, model, open_session, tmp_path
):
    path = tf.train.Checkpoint(kernel=tf.Variable([[5.0, 5.0]])).write(str(tmp_path / "checkpoint"))
    with hook_graph.graph.as_default():
        (kernel,) = v1.trainable_variables()
        v1.train.init_from_checkpoint(path, {"kernel/.ATTRIBUTES/VARIABLE_VALUE": kernel})
    assert open_session(is_restored).run(kernel).tolist() == model.values["dense/kernel"].tolist() == expected


def test_copies_are_created_only_for_a_hook_that_asks(hook_graph, open_session):
    open_session().run(hook_graph.step_op)
    with hook_graph.graph.as_default():
        assert [variable.op.name for variable in v1.global_variables()] == ["global_step"]
