"""tf.estimator's code at home on today's TensorFlow. The public names, spelled as in tf.estimator."""

import importlib
import os
import sys

# tf.keras is tf_keras, and tf.compat.v1.layers exist, only where this is set before TensorFlow is first imported.
if "tensorflow" not in sys.modules:
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

__version__ = "0.1.0"

# Names to the modules that hold them: TensorFlow is imported with the first of them that is used.
_HOMES = {
    "Estimator": "estimator",
    "EstimatorSpec": "model_fn",
    "ModeKeys": "model_fn",
    "RunConfig": "run_config",
    "VocabInfo": "warm_start",
    "WarmStartSettings": "warm_start",
    "install": "drop_in",
    "model_to_estimator": "keras",
    **dict.fromkeys(
        [
            "CheckpointSaverHook",
            "CheckpointSaverListener",
            "FeedFnHook",
            "FinalOpsHook",
            "GlobalStepWaiterHook",
            "LoggingTensorHook",
            "NanLossDuringTrainingError",
            "NanTensorHook",
            "ProfilerHook",
            "ProgressHook",
            "SecondOrStepTimer",
            "SessionRunArgs",
            "SessionRunContext",
            "SessionRunHook",
            "SessionRunValues",
            "StepCounterHook",
            "StopAtStepHook",
            "SummarySaverHook",
            "TimingHook",
        ],
        "hooks",
    ),
}

_MODULES = ("experimental", "export", "hooks", "input_fns", "inputs")

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__():
    return __all__
