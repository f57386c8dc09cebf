"""Builds the hook graph of a Keras run and its EstimatorSpec."""

from __future__ import annotations

import tensorflow as tf

from estimator_train._engine.checkpoints.object_based import ObjectSaver
from estimator_train._engine.model_fn import EstimatorSpec, ModeKeys
from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.function_session import HookGraph

v1 = tf.compat.v1


def make_hook_graph(mode, value_specs, checkpoint, config):
    """Returns a HookGraph for the values in `value_specs`, and its EstimatorSpec."""
    hook_graph = HookGraph(value_specs)
    with hook_graph.graph.as_default():
        saver = ObjectSaver(checkpoint, config)
        v1.add_to_collection(v1.GraphKeys.SAVERS, saver)  # a user's CheckpointSaverHook looks there
        ready = hook_graph.ready_op
        scaffold = v1.train.Scaffold(ready_op=ready, ready_for_local_init_op=ready, saver=saver)
        return hook_graph, _spec(mode, hook_graph, scaffold)


def _spec(mode, hook_graph, scaffold):
    """Returns the EstimatorSpec of the hook graph; call it with the graph as default."""
    values = hook_graph.model_values
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions=values, scaffold=scaffold)
    if not values:
        raise ValueError("train_step and test_step must return at least one value; return the loss.")
    loss = values.get("loss", next(iter(values.values())))
    if mode == ModeKeys.TRAIN:
        for name, value in values.items():
            if value is not loss and value.shape.rank == 0 and value.dtype.is_floating:
                v1.add_to_collection(v1.GraphKeys.SUMMARIES, tf.raw_ops.ScalarSummary(tags=name, values=value))
        if step_outputs.LEARNING_RATE in hook_graph.values:
            rate = hook_graph.values[step_outputs.LEARNING_RATE]
            v1.add_to_collection(v1.GraphKeys.SUMMARIES, tf.raw_ops.ScalarSummary(tags="learning_rate", values=rate))
        return EstimatorSpec(mode, loss=loss, train_op=hook_graph.step_op, scaffold=scaffold)
    metrics = {name: (value, hook_graph.step_op) for name, value in values.items()}
    return EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics, scaffold=scaffold)
