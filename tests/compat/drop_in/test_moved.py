"""Modules and names of TensorFlow's own that have moved are found where old programs look for them."""

import importlib
import json

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train.compat.drop_in import moved

# Imports of adanet 0.9.0, tf_slim 1.1.0, tensor2tensor 1.15.7 and EasyRec 0.7.1.
IMPORTS = [
    ("from tensorflow.python.training.tracking import graph_view; found = graph_view.ObjectGraphView",
     "tensorflow.python.checkpoint.graph_view.ObjectGraphView"),
    ("from tensorflow.python.training.tracking.tracking import AutoTrackable as found",
     "tensorflow.python.trackable.autotrackable.AutoTrackable"),
    ("from tensorflow.python.training.tracking import tracking; found = tracking.TrackableResource",
     "tensorflow.python.trackable.resource.TrackableResource"),
    ("from tensorflow.python.training.tracking import base; found = base.Trackable",
     "tensorflow.python.trackable.base.Trackable"),
    ("from tensorflow.python.training import distribution_strategy_context as c; found = c.get_strategy",
     "tensorflow.python.distribute.distribute_lib.get_strategy"),
    ("from tensorflow.python.training import training_ops; found = training_ops.apply_adam",
     "tensorflow.python.ops.gen_training_ops.apply_adam"),
    ("from tensorflow.python.framework import ops; found = ops.Tensor", "tensorflow.Tensor"),
    ("from tensorflow.python.framework.ops import register_tensor_conversion_function as found",
     "tensorflow.register_tensor_conversion_function"),
    ("from tensorflow.python.ops import control_flow_ops; found = control_flow_ops.cond",
     "tensorflow.python.ops.cond.cond"),
    ("from tensorflow.python.util import nest; found = nest.is_sequence", "tensorflow.python.util.nest.is_nested"),
    ("from tensorflow.python import pywrap_tensorflow; found = pywrap_tensorflow.NewCheckpointReader",
     "tensorflow.python.training.py_checkpoint_reader.NewCheckpointReader"),
    ("from tensorflow.python.framework import graph_util; found = graph_util.convert_variables_to_constants",
     "tensorflow.python.framework.convert_to_constants.convert_variables_to_constants"),
    ("from tensorflow.python.util.tf_export import estimator_export as found",
     "tensorflow.python.util.tf_export.tf_export"),
    ("from tensorflow.python.layers import normalization; found = normalization.BatchNormalization",
     "tensorflow.compat.v1.layers.BatchNormalization"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "today"), IMPORTS)
def test_an_import_of_an_old_program_leads_to_where_the_name_is(statement, today):
    scope = {}
    exec(statement, scope)
    module, _, name = today.rpartition(".")
    owner = importlib.import_module(module) if module != "tensorflow.compat.v1.layers" else tf.compat.v1.layers
    assert scope["found"] is getattr(owner, name)


@pytest.mark.parametrize("path", moved.MODULES)
def test_every_moved_module_is_found(path):
    assert importlib.import_module(path).__name__


def test_a_module_keeps_the_names_that_it_has(monkeypatch):
    from tensorflow.python.framework import ops

    monkeypatch.setattr(ops, "Tensor", "its own")
    moved.restore_names()
    assert ops.Tensor == "its own"


def test_only_a_strategy_in_a_cluster_runs_a_coordinator(monkeypatch):
    from tensorflow.python.distribute import estimator_training

    def asked():
        strategy = tf.distribute.MirroredStrategy(["CPU:0"])
        configs = [et.RunConfig(), et.RunConfig(train_distribute=strategy), et.RunConfig(eval_distribute=strategy)]
        return [estimator_training.should_run_distribute_coordinator(config) for config in [*configs, object()]]

    assert asked() == [False] * 4
    cluster = {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    assert asked() == [False, True, False, False]  # printed by TensorFlow 2.15.1 for the same configs
    with pytest.raises(AttributeError, match="'init_run_config': use tf.estimator.RunConfig"):
        _ = estimator_training.init_run_config


def test_the_old_train_and_evaluate_of_clusters_is_ours(monkeypatch):
    from tensorflow.python.distribute import estimator_training

    asked = []
    monkeypatch.setattr("estimator_train.training.train_and_evaluate", lambda *arguments: asked.append(arguments))
    estimator_training.train_and_evaluate("estimator", "train", "eval", object)
    assert asked == [("estimator", "train", "eval")]
