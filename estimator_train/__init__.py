"""tf.estimator's code at home on today's TensorFlow. The public names, spelled as in tf.estimator."""

import importlib
import os
import platform
import sys

from estimator_train.host import late_imports

# TensorFlow reads both once, when it is first imported.
if "tensorflow" not in sys.modules:
    # tf.keras is tf_keras, and tf.compat.v1.layers exist, only with it.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    # TensorFlow turns oneDNN on with such as AVX512_VNNI alone; convolutions gain from it on other processors, too.
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
late_imports.install()

__version__ = "0.1.0"

# Names to the modules that hold them: TensorFlow is imported with the first of them that is used.
_HOMES = {
    name: module
    for module, names in {
        "canned": (
            "BaselineClassifier BaselineEstimator BaselineRegressor DNNClassifier DNNEstimator DNNRegressor "
            "DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor "
            "LinearClassifier LinearEstimator LinearRegressor"
        ),
        "drop_in": "install",
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
            "CallbacksHook CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook "
            "LoggerHook LoggingTensorHook NanLossDuringTrainingError NanTensorHook ProfilerHook ProgressHook "
            "SecondOrStepTimer SessionRunArgs SessionRunContext SessionRunHook SessionRunValues StepCounterHook "
            "StopAtStepHook SummarySaverHook TimingHook"
        ),
        "keras_estimator": "model_to_estimator",
        "model_fn": "EstimatorSpec ModeKeys",
        "canned.parse_example_spec": "classifier_parse_example_spec regressor_parse_example_spec",
        "run_config": "RunConfig",
        "keras.devices.split": "split_over",
        "training": "EvalSpec TrainSpec train_and_evaluate",
        "graph.warm_start": "VocabInfo WarmStartSettings",
    }.items()
    for name in names.split()
}
_MODULES = ("conversion", "experimental", "export", "hooks", "input_fns", "inputs", "loggers")

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__():
    return __all__
