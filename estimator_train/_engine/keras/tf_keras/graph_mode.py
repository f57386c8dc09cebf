"""Converts Keras models made with eager execution off, as in TensorFlow 1 programs, for eager mode."""

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras import private_keras, private_tensorflow
from estimator_train._engine.keras.tf_keras import private_tf_keras

v1 = tf.compat.v1


def graph_of(model: keras.Model) -> tf.Graph | None:
    """Returns the v1 graph that `model` was made in, or None for an eager model or one without variables."""
    # `weights` raises while a Sequential model among the layers has none.
    variables = [part for part in tf.train.TrackableView(model).descendants() if isinstance(part, tf.Variable)]
    for part in [*variables, *tf.nest.flatten(model.inputs or ())]:
        graph = getattr(part, "graph", None)  # an eager variable has none
        if graph is not None:
            return graph
    return None


def initial_weights(model: keras.Model, seed: int | None) -> list[np.ndarray]:
    """Returns the weights that the Estimator starts from for `model`; none while the model has no input shape."""
    if (isinstance(model, keras.Sequential) and not model.built) or not model.weights:
        return []
    # They are in Keras' session if any was set or trained there. Otherwise they are initialized again, as in
    # tf.estimator.
    if any(map(private_tf_keras.is_initialized_by_keras, model.weights)):
        graph = graph_of(model)
        assert graph is not None  # only variables of a graph are initialized by a session
        with graph.as_default():
            return keras.backend.batch_get_value(model.weights)
    with tf.Graph().as_default():
        v1.set_random_seed(seed)
        drawn = keras.models.clone_model(model)
        with v1.Session() as session:
            session.run([weight.initializer for weight in drawn.weights])
            return session.run(drawn.weights)


def compile_arguments(model: keras.Model, graph: tf.Graph | None) -> dict[str, Any]:
    """Returns the model's `compile()` arguments for an eager copy; `graph` is that of `graph_of`."""
    arguments = private_keras.compile_arguments(model)
    if graph is not None and not private_tensorflow.v2_behavior():
        arguments["metrics"] = tf.nest.map_structure(_as_named_by_v1, arguments["metrics"])
    return arguments


def _as_named_by_v1(metric: Any) -> Any:
    """Returns `metric` in the form that gets its name without v2 behaviour, such as "acc" for accuracy."""
    if not isinstance(metric, str):
        return metric
    return {"accuracy": "acc", "acc": "acc", "crossentropy": "ce", "ce": "ce"}.get(metric) or keras.metrics.get(metric)


def without_graph(optimizer: tf.compat.v1.train.Optimizer) -> tf.compat.v1.train.Optimizer:
    """Removes the graph's tensors from a copied v1 optimizer; ValueError if one of its settings is such a tensor."""
    for name, value in vars(optimizer).items():
        if not hasattr(value, "graph"):
            continue
        if not name.endswith(("_t", "_tensor")):  # names of tensors that each update computes from a setting
            raise ValueError(
                f"{name.removeprefix('_')} of the {type(optimizer).__name__} is {value}, a tensor of the graph that "
                "the model was made in; use a number, or compile the model with a Keras optimizer with a "
                "tf.keras.optimizers.schedules.LearningRateSchedule."
            )
        setattr(optimizer, name, None)
    return optimizer
