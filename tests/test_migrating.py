"""docs/old_names.md is true: its table is compared with the package, through the drop-in."""

import functools
import pkgutil
import re
from pathlib import Path

import pytest
import tensorflow as tf

import estimator_train as et

ROWS = re.findall(
    r"^\| `(tf\.[\w.]+)` \| `?([\w.]+)`? \|(.*)\|$",
    (Path(__file__).parent.parent / "docs" / "old_names.md").read_text(),
    re.MULTILINE,
)
HERE = [(old, ours) for old, ours, _ in ROWS if ours != "absent"]
ABSENT = [(old, note.strip()) for old, ours, note in ROWS if ours == "absent"]

# All public symbols of TensorFlow 2.15.1: tf.estimator's, then the additional ones of tf.compat.v1.estimator.
V2 = """
BaselineClassifier BaselineEstimator BaselineRegressor BestExporter BinaryClassHead CheckpointSaverHook
CheckpointSaverListener DNNClassifier DNNEstimator DNNLinearCombinedClassifier DNNLinearCombinedEstimator
DNNLinearCombinedRegressor DNNRegressor Estimator EstimatorSpec EvalSpec Exporter FeedFnHook FinalExporter FinalOpsHook
GlobalStepWaiterHook Head LatestExporter LinearClassifier LinearEstimator LinearRegressor LoggingTensorHook
LogisticRegressionHead ModeKeys MultiClassHead MultiHead MultiLabelHead NanLossDuringTrainingError NanTensorHook
PoissonRegressionHead ProfilerHook RegressionHead RunConfig SecondOrStepTimer SessionRunArgs SessionRunContext
SessionRunHook SessionRunValues StepCounterHook StopAtStepHook SummarySaverHook TrainSpec VocabInfo WarmStartSettings
add_metrics classifier_parse_example_spec regressor_parse_example_spec train_and_evaluate
experimental.InMemoryEvaluatorHook experimental.LinearSDCA experimental.RNNClassifier experimental.RNNEstimator
experimental.build_raw_supervised_input_receiver_fn experimental.call_logit_fn experimental.make_early_stopping_hook
experimental.make_stop_at_checkpoint_step_hook experimental.stop_if_higher_hook experimental.stop_if_lower_hook
experimental.stop_if_no_decrease_hook experimental.stop_if_no_increase_hook
export.ClassificationOutput export.EvalOutput export.ExportOutput export.PredictOutput export.RegressionOutput
export.ServingInputReceiver export.TensorServingInputReceiver export.build_parsing_serving_input_receiver_fn
export.build_raw_serving_input_receiver_fn
"""
V1_ALONE = """
experimental.KMeans experimental.dnn_logit_fn_builder experimental.linear_logit_fn_builder inputs.numpy_input_fn
inputs.pandas_input_fn tpu.InputPipelineConfig tpu.RunConfig tpu.TPUConfig tpu.TPUEstimator tpu.TPUEstimatorSpec
tpu.experimental.EmbeddingConfigSpec
"""


@pytest.fixture(autouse=True)
def installed():
    et.install()


def test_every_symbol_of_tf_estimator_has_one_row():
    old = [old for old, _, _ in ROWS]
    assert len(old) == len(set(old))
    assert [name for name in V2.split() if f"tf.estimator.{name}" not in old] == []
    assert [name for name in V1_ALONE.split() if f"tf.compat.v1.estimator.{name}" not in old] == []
    assert {"tf.keras.estimator.model_to_estimator", "tf.compat.v1.keras.estimator.model_to_estimator"} < set(old)


@pytest.mark.parametrize(("old", "ours"), [row for row in HERE if ".keras." not in row[0]])
def test_what_is_there_is_found_under_both_names(old, ours):
    assert _get(old) is pkgutil.resolve_name(ours)


@pytest.mark.parametrize("old", [old for old, _ in HERE if old.startswith("tf.estimator.")])
def test_v1_has_each_name_of_v2(old):
    v1 = old.replace("tf.", "tf.compat.v1.", 1)
    assert _get(v1) is (_get(old) if v1 not in dict(HERE) else pkgutil.resolve_name(dict(HERE)[v1]))


@pytest.mark.parametrize(("old", "instead"), ABSENT)
def test_what_is_absent_raises_what_to_use_instead(old, instead):
    with pytest.raises(AttributeError, match=f"use {re.escape(instead)}"):
        _get(old)


def _get(name):
    return functools.reduce(getattr, name.removeprefix("tf.").split("."), tf)
