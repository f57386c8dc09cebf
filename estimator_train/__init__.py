"""tf.estimator for current TensorFlow. Lists the public names, spelled as in tf.estimator."""

import importlib
import os
import platform
import sys
from typing import Any

from estimator_train._engine.host import late_imports, notebook
from estimator_train._engine.host.gpu_devices import is_gpu_there

# TensorFlow reads both variables once, when it is first imported.
if "tensorflow" not in sys.modules:
    # Makes tf.keras mean tf_keras; without it, tf.compat.v1.layers does not exist.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    # By itself TensorFlow enables oneDNN only on CPUs with, for example, AVX512_VNNI; it speeds up convolutions on all.
    # With it, TensorFlow also replaces LayerNormalization on GPUs by an op that only CPUs have, _MklLayerNorm.
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0" if is_gpu_there() else "1")
late_imports.install()
if notebook.is_kernel():
    notebook.shorten_outputs()

__version__ = "0.1.0"

# Maps each public name to its module. TensorFlow is imported when the first name is used.
_HOMES = {
    name: module
    for module, names in {
        "canned": (
            "BaselineClassifier BaselineEstimator BaselineRegressor DNNClassifier DNNEstimator DNNRegressor "
            "DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor "
            "LinearClassifier LinearEstimator LinearRegressor"
        ),
        "compat.drop_in": "install",
        "estimator": "Estimator",
        "exporter": (
            "BestCheckpointExporter BestExporter Exporter FinalExporter LatestExporter LoggerExporter compare_by"
        ),
        "extenders": "add_metrics",
        "heads": (
            "BinaryClassHead Head LogisticRegressionHead MultiClassHead MultiHead MultiLabelHead PoissonRegressionHead "
            "RegressionHead"
        ),
        "hooks": (
            "CallbacksHook CheckpointSaverHook CheckpointSaverListener EvaluationListener FeedFnHook FinalOpsHook "
            "GlobalStepWaiterHook LoggerHook LoggerListener LoggingTensorHook NanLossDuringTrainingError NanTensorHook "
            "ProfilerHook ProgressHook SecondOrStepTimer SessionRunArgs SessionRunContext SessionRunHook "
            "SessionRunValues StepCounterHook StopAtStepHook SummarySaverHook TimingHook"
        ),
        "keras_estimator": "model_to_estimator",
        "_engine.model_fn": "EstimatorSpec ModeKeys",
        "canned.parse_example_spec": "classifier_parse_example_spec regressor_parse_example_spec",
        "run_config": "RunConfig",
        "_engine.keras.tf_keras.split": "split_over",
        "training": "EvalSpec TrainSpec train_and_evaluate",
        "_engine.graph.warm_start": "VocabInfo WarmStartSettings",
    }.items()
    for name in names.split()
}
_MODULES = {name: name for name in ("experimental", "export", "hooks", "input_fns", "inputs", "loggers")}
_MODULES |= {"conversion": "app.conversion", "runs": "app.running"}

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if value.__module__.startswith(f"{__name__}._engine"):
        value.__module__ = __name__  # for reprs, tracebacks and pickles
    return value


def __dir__() -> list[str]:
    return __all__
