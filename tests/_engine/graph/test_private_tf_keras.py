"""Each private name of tf_keras, used as in the package; docstrings say what breaks without it."""

import types

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import tensorflow as tf
import tf_keras as keras
from tf_keras.src import backend

from estimator_train._engine.graph import private_tf_keras
from estimator_train._engine.session.private_tensorflow import eager_mode


def test_the_schedule_of_a_keras_optimizer():
    """In a model_fn the optimizer's legacy twin would train at the first learning rate of the schedule for good."""
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    assert private_tf_keras.learning_rate_or_schedule(keras.optimizers.Adam(schedule)) is schedule
    assert float(private_tf_keras.learning_rate_or_schedule(keras.optimizers.Adam(0.25))) == 0.25


def test_the_step_variable_of_a_legacy_optimizer_is_replaced():
    """The iterations of a given optimizer would not be the global step of its canned estimator."""
    optimizer = keras.optimizers.legacy.Adam()
    assert private_tf_keras.legacy_step_variable(optimizer) is None
    for step in (tf.Variable(1), tf.Variable(2)):
        private_tf_keras.set_legacy_step_variable(optimizer, step)
        assert optimizer.iterations is step is private_tf_keras.legacy_step_variable(optimizer)


def test_keras_runs_in_another_session_and_keeps_it_if_it_does(graph):
    """Weights that a model_fn sets would be lost, and a session of the program before would be, too."""
    before, unused = (types.SimpleNamespace(graph=graph, is_open=is_open) for is_open in (True, False))
    for session in (before, unused):
        with private_tf_keras.running_in(session):
            assert backend.get_session() is session
        assert backend.get_session() is before
    backend.set_session(None)


def test_assignments_of_weights_that_keras_does_not_run(graph, tmp_path):
    """Weights of a .keras file that a model_fn loads would be lost."""
    path = str(tmp_path / "model.keras")
    with eager_mode():
        keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]).save(path)
    model = keras.models.load_model(path)
    model.layers[0].kernel.assign([[3.0]])
    assigns = [op for op in graph.get_operations() if op.type == "AssignVariableOp" and op.inputs[1].op.type == "Const"]
    of_loading = [op for op in assigns if private_tf_keras.is_of_loading(op)]
    assert {op.inputs[0].name for op in of_loading} == {weight.handle.name for weight in model.weights}
    assert len(of_loading) < len(assigns)
