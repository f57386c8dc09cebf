"""The names of tf.estimator and of the modules of its old library, and where each is here, as "module:name"."""

# The names of tf.estimator, by the modules below tensorflow_estimator.python.estimator that held them.
_TOP = {
    "canned.baseline": "BaselineClassifier BaselineEstimator BaselineRegressor",
    "canned.dnn": "DNNClassifier DNNEstimator DNNRegressor",
    "canned.dnn_linear_combined": ("DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor"),
    "canned.linear": "LinearClassifier LinearEstimator LinearRegressor",
    "canned.parsing_utils": "classifier_parse_example_spec regressor_parse_example_spec",
    "estimator": "Estimator VocabInfo WarmStartSettings",
    "exporter": "BestExporter Exporter FinalExporter LatestExporter",
    "extenders": "add_metrics",
    "head.base_head": "Head",
    "head.binary_class_head": "BinaryClassHead",
    "head.multi_class_head": "MultiClassHead",
    "head.multi_head": "MultiHead",
    "head.multi_label_head": "MultiLabelHead",
    "head.regression_head": "LogisticRegressionHead PoissonRegressionHead RegressionHead",
    "hooks.basic_session_run_hooks": (
        "CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook LoggingTensorHook "
        "NanLossDuringTrainingError NanTensorHook ProfilerHook SecondOrStepTimer StepCounterHook StopAtStepHook "
        "SummarySaverHook"
    ),
    "hooks.session_run_hook": "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues",
    "mode_keys": "ModeKeys",
    "model_fn": "EstimatorSpec",
    "run_config": "RunConfig",
    "training": "EvalSpec TrainSpec train_and_evaluate",
}
_EXPERIMENTAL = {
    "early_stopping": (
        "make_early_stopping_hook stop_if_higher_hook stop_if_lower_hook stop_if_no_decrease_hook "
        "stop_if_no_increase_hook"
    ),
    "export.export": "build_raw_supervised_input_receiver_fn",
    "hooks.hooks": "InMemoryEvaluatorHook make_stop_at_checkpoint_step_hook",
    "model_fn": "call_logit_fn",
}
_EXPORT = {
    "export.export": (
        "ServingInputReceiver TensorServingInputReceiver build_parsing_serving_input_receiver_fn "
        "build_raw_serving_input_receiver_fn"
    ),
    "export.export_output": "ClassificationOutput EvalOutput ExportOutput PredictOutput RegressionOutput",
}
_INPUTS = {"inputs.numpy_io": "numpy_input_fn", "inputs.pandas_io": "pandas_input_fn"}


_TPU = {
    "tpu.tpu_config": "InputPipelineConfig RunConfig TPUConfig",
    "tpu.tpu_estimator": "TPUEstimator TPUEstimatorSpec",
}


def _names(table):
    return [name for names in table.values() for name in names.split()]


_V2 = {name: f"estimator_train:{name}" for name in _names(_TOP)}
_OF_EXPERIMENTAL = {name: f"estimator_train.experimental:{name}" for name in _names(_EXPERIMENTAL)}
_OF_EXPORT = {name: f"estimator_train.export:{name}" for name in _names(_EXPORT)}
_OF_INPUTS = {name: f"estimator_train.inputs:{name}" for name in _names(_INPUTS)}
_OF_TPU = {name: f"estimator_train.drop_in.tpu:{name}" for name in _names(_TPU)}

# Where tf.compat.v1 has another class under the name.
_CANNED = [name for name in _V2 if name.startswith(("Baseline", "DNN", "Linear"))]
_V1_OWN = {"Estimator": "estimator_train.estimator_v1:Estimator"} | {
    name: f"estimator_train.canned.v1:{name}" for name in _CANNED
}
_V1 = _V2 | _V1_OWN

_MODE_KEYS = {"ModeKeys": _V2["ModeKeys"]}
_MODEL_TO_ESTIMATOR = {"model_to_estimator": "estimator_train.drop_in.keras_lib:model_to_estimator"}
_TRAIN_OUTPUT = {"TrainOutput": "estimator_train.export:TrainOutput"}
# What the old modules held besides, and code outside of the library took from them.
_BESIDES = {
    "canned.head": {},
    "canned.metric_keys": {"MetricKeys": "estimator_train.heads.keys:MetricKeys"},
    "canned.prediction_keys": {"PredictionKeys": "estimator_train.heads.keys:PredictionKeys"},
    "estimator": _MODE_KEYS,
    "estimator_lib": {
        **_V1,
        **_OF_EXPERIMENTAL,
        **_MODEL_TO_ESTIMATOR,
        "export": "tensorflow_estimator.python.estimator.export.export_lib",
        "inputs": "tensorflow_estimator.python.estimator.inputs.inputs",
    },
    "export.export_lib": _OF_EXPORT | _TRAIN_OUTPUT,
    "export.export": {"SupervisedInputReceiver": "estimator_train.export:SupervisedInputReceiver"},
    "export.export_output": _TRAIN_OUTPUT,
    "gc": {
        name: f"estimator_train.drop_in.gc:{name}"
        for name in ("Path", "_get_paths", "_largest_export_versions", "_negation")
    },
    "inputs.inputs": _OF_INPUTS,
    "keras_lib": _MODEL_TO_ESTIMATOR,
    "model_fn": _MODE_KEYS,
    "tpu.tpu_config": {name: _OF_TPU[name] for name in _TPU["tpu.tpu_config"].split()},
    "tpu.tpu_estimator": {
        "ExportSavedModelApiVersion": "estimator_train.drop_in.tpu.tpu_estimator:ExportSavedModelApiVersion",
        **{name: _OF_TPU[name] for name in _TPU["tpu.tpu_estimator"].split()},
    },
    "run_config": {"TaskType": "estimator_train.run_config:TaskType"},
    "util": {"fn_args": "estimator_train.session.private_names:fn_args"},
}


def _old_library():
    """The modules below tensorflow_estimator.python.estimator, where DNNClassifier is v1's, DNNClassifierV2 v2's."""
    everything = {**_V1, **_OF_EXPERIMENTAL, **_OF_EXPORT, **_OF_INPUTS}
    modules = {module: dict(names) for module, names in _BESIDES.items()}
    for table in (_TOP, _EXPERIMENTAL, _EXPORT, _INPUTS):
        for module, names in table.items():
            held = modules.setdefault(module, {})
            for name in names.split():
                held[name] = everything[name]
                if name in _V1_OWN or name.endswith("_parse_example_spec"):
                    held[f"{name}{'_v2' if name[0].islower() else 'V2'}"] = _V2[name]
    return modules


def _modules():
    """Every old module path, to its names."""
    v2 = {"": _V2, ".experimental": _OF_EXPERIMENTAL, ".export": _OF_EXPORT}
    v1 = {
        "": _V1,
        ".experimental": _OF_EXPERIMENTAL,
        ".export": _OF_EXPORT,
        ".inputs": _OF_INPUTS,
        ".tpu": _OF_TPU,
        ".tpu.experimental": {},
    }
    faces = {
        "tensorflow.estimator": v2,
        "tensorflow.compat.v1.estimator": v1,
        "tensorflow.compat.v2.estimator": v2,
        "tensorflow_estimator.estimator": v1,
        "tensorflow_estimator.python.estimator.api._v1.estimator": v1,
        "tensorflow_estimator.python.estimator.api._v2.estimator": v2,
    }
    modules = {face + part: names for face, parts in faces.items() for part, names in parts.items()}
    for library in ("tensorflow_estimator.python.estimator", "tensorflow.python.estimator"):
        modules |= {f"{library}.{module}": names for module, names in _old_library().items()}
        modules[library] = {}
    for path in list(modules):
        while (path := path.rpartition(".")[0]).startswith(("tensorflow_estimator", "tensorflow.python.estimator")):
            modules.setdefault(path, {})
    return modules


MODULES = _modules()

_ON_TPU = "TPUEstimator(use_tpu=False); TPUs are not served"
_FOREST = "the ydf package (Yggdrasil Decision Forests)"
_RNN = "model_to_estimator with a tf_keras model of LSTM or GRU layers"

# Names of tf.estimator that are not here, to what serves instead.
INSTEAD = {
    **dict.fromkeys(["BatchConfig", "EmbeddingConfigSpec", "inference_on_tpu", "model_fn_inference_on_tpu"], _ON_TPU),
    **dict.fromkeys(["BoostedTreesClassifier", "BoostedTreesEstimator", "BoostedTreesRegressor"], _FOREST),
    **dict.fromkeys(["RNNClassifier", "RNNEstimator"], _RNN),
    **dict.fromkeys(["dnn_logit_fn_builder", "linear_logit_fn_builder"], "DNNEstimator or LinearEstimator with a Head"),
    "LinearSDCA": "optimizer='Ftrl', the default of linear models, with its l1 and l2 regularization",
    "KMeans": "scikit-learn's KMeans or MiniBatchKMeans",
    "inputs": "tf.compat.v1.estimator.inputs",
    "tpu": "tf.compat.v1.estimator.tpu",
    "_binary_logistic_head_with_sigmoid_cross_entropy_loss": "BinaryClassHead",
    "_multi_class_head_with_softmax_cross_entropy_loss": "MultiClassHead",
    "_regression_head": "RegressionHead",
}
