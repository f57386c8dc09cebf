"""Builds the hook graph of a Keras run and its EstimatorSpec."""

from __future__ import annotations

import tensorflow as tf

from estimator_train._engine.checkpoints.object_based import ObjectSaver
from estimator_train._engine.keras.step_programs import StepProgram
from estimator_train._engine.model_fn import EstimatorSpec
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session.function_session import HookGraph
from estimator_train._engine.session.hook_variables import ModelVariables

v1 = tf.compat.v1


def make_hook_graph(
    program: StepProgram,
    value_specs: dict[str, tf.TypeSpec],
    checkpoint: tf.train.Checkpoint,
    config: RunConfig,
    variables: ModelVariables | None = None,
) -> tuple[HookGraph, EstimatorSpec]:
    """Returns a HookGraph for the values of the program's steps, and its EstimatorSpec; see `HookGraph`."""
    hook_graph = HookGraph(value_specs, variables)
    with hook_graph.graph.as_default():
        saver = ObjectSaver(checkpoint, config)
        v1.add_to_collection(v1.GraphKeys.SAVERS, saver)  # a user's CheckpointSaverHook looks there
        ready = hook_graph.ready_op
        scaffold = v1.train.Scaffold(ready_op=ready, ready_for_local_init_op=ready, saver=saver)
        return hook_graph, program.spec(hook_graph, scaffold)
