"""Maps the names of tf.estimator and of its old library's modules to this package, as "module:name"."""

from collections import defaultdict

# The names of tf.estimator, by module below tensorflow_estimator.python.estimator.
_TOP = {
    "canned.baseline": "BaselineClassifier BaselineEstimator BaselineRegressor",
    "canned.dnn": "DNNClassifier DNNEstimator DNNRegressor",
    "canned.dnn_linear_combined": "DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor",
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
_TRAINING = {"estimator_training": "should_run_distribute_coordinator train_and_evaluate"}
_TPU = {
    "tpu.tpu_config": "InputPipelineConfig RunConfig TPUConfig",
    "tpu.tpu_estimator": "TPUEstimator TPUEstimatorSpec",
}


def places(table: dict[str, str], prefix: str = "") -> dict[str, str]:
    """Returns the place of each name, "module:name", in a table of modules and their names, where "old=new" renames."""
    found = {}
    for module, names in table.items():
        for name in names.split():
            old, _, here = name.partition("=")
            found[old] = f"{prefix}{module}:{here or old}"
    return found


def _face(module, table):
    return places({module: " ".join(table.values())})


_V2 = _face("estimator_train", _TOP)
_EXPERIMENTAL_NAMES = _face("estimator_train.experimental", _EXPERIMENTAL)
_EXPORT_NAMES = _face("estimator_train.export", _EXPORT)
_INPUT_NAMES = _face("estimator_train.inputs", _INPUTS)
_TPU_NAMES = _face("estimator_train.compat.drop_in.tpu", _TPU)
_TRAINING_NAMES = _face("estimator_train.compat.drop_in.training", _TRAINING)

# Names that mean another class in tf.compat.v1.
_CANNED = [name for name in _V2 if name.startswith(("Baseline", "DNN", "Linear"))]
_V1_OWN = {"Estimator": "estimator_train.estimator_v1:Estimator"} | {
    name: f"estimator_train.canned.v1:{name}" for name in _CANNED
}
_V1 = _V2 | _V1_OWN

_LOGIT_FN_BUILDERS = {
    "dnn_logit_fn_builder": "estimator_train.canned.dnn:dnn_logit_fn_builder",
    "linear_logit_fn_builder": "estimator_train.canned.linear:linear_logit_fn_builder",
}
_FOR_EXPORTS = (
    "UnsupervisedInputReceiver build_all_signature_defs build_supervised_input_receiver_fn_from_input_fn "
    "get_temp_export_dir get_timestamped_export_dir wrap_and_check_input_tensors"
)
# Other names of the old modules that code outside the library uses: for each old module, a dict of our modules to the
# names in them. "old=new" renames.
_BESIDES = {
    "canned.dnn": {
        "canned.dnn": "dnn_logit_fn_builder _dnn_logit_fn_builder=dnn_logit_fn_builder",
        "compat.drop_in.model_fns": "_dnn_model_fn dnn_logit_fn_builder_v2 dnn_model_fn_v2",
    },
    "canned.head": {
        "compat.drop_in.base_head": (
            "_CLASSIFY_SERVING_KEY=CLASSIFY_SERVING_KEY _DEFAULT_SERVING_KEY=DEFAULT_SERVING_KEY "
            "_PREDICT_SERVING_KEY=PREDICT_SERVING_KEY _REGRESS_SERVING_KEY=REGRESS_SERVING_KEY "
            "_assert_range=check_label_range _call_loss_fn=call_loss_fn "
            "_create_eval_metrics_tuple=create_eval_metrics_tuple "
            "_get_weights_and_check_match_logits=get_weights_and_check_match_logits"
        ),
        "heads.checks": (
            "_check_dense_labels_match_logits_and_reshape=check_labels _check_logits_final_dim=check_logits "
            "_validate_loss_fn_args=check_loss_fn _validate_n_classes=check_n_classes"
        ),
        "heads.classes": (
            "_all_class_ids=all_class_ids _all_classes=all_classes _classification_output=classification_output"
        ),
        "compat.drop_in.canned_head": (
            "LossSpec _BinaryLogisticHeadWithSigmoidCrossEntropyLoss _Head _MultiClassHeadWithSoftmaxCrossEntropyLoss "
            "_RegressionHeadWithMeanSquaredErrorLoss _append_update_ops _binary_logistic_or_multi_class_head "
            "_binary_logistic_head_with_sigmoid_cross_entropy_loss=_BinaryLogisticHeadWithSigmoidCrossEntropyLoss "
            "_multi_class_head_with_softmax_cross_entropy_loss=_MultiClassHeadWithSoftmaxCrossEntropyLoss "
            "_regression_head _summary_key"
        ),
    },
    "canned.linear": {
        "canned.linear": (
            "linear_logit_fn_builder _linear_logit_fn_builder=linear_logit_fn_builder "
            "linear_logit_fn_builder_v2=linear_logit_fn_builder"
        ),
        "compat.drop_in.model_fns": (
            "_linear_model_fn _linear_model_fn_v2 _validate_linear_sdca_optimizer_for_linear_classifier"
        ),
    },
    "canned.metric_keys": {"heads.keys": "MetricKeys"},
    "canned.optimizers": {"compat.drop_in.model_fns": "get_optimizer_instance get_optimizer_instance_v2"},
    "canned.parsing_utils": {
        "canned.parse_example_spec": (
            "classifier_parse_example_spec_v2=classifier_parse_example_spec "
            "regressor_parse_example_spec_v2=regressor_parse_example_spec"
        )
    },
    "canned.prediction_keys": {"heads.keys": "PredictionKeys"},
    "early_stopping": {"compat.drop_in.estimator": "read_eval_metrics"},
    "estimator": {
        "compat.drop_in.estimator": (
            "_canned_estimator_api_gauge _dict_to_str _estimator_api_gauge _load_global_step_from_checkpoint_dir "
            "_write_checkpoint_path_to_summary _write_dict_to_summary"
        ),
        "estimator": "maybe_overwrite_model_dir_and_session_config=_config_with_model_dir",
        "_engine.model_fn": "ModeKeys",
    },
    "estimator_export": {"compat.drop_in.estimator": "estimator_export"},
    "export.export": {"compat.drop_in.export": _FOR_EXPORTS, "export": "SupervisedInputReceiver"},
    "export.export_lib": {
        "compat.drop_in.export": _FOR_EXPORTS,
        "export": f"SupervisedInputReceiver TrainOutput {' '.join(_EXPORT_NAMES)}",
    },
    "export.export_output": {"export": "TrainOutput"},
    "exporter": {
        "compat.drop_in.export": "_SavedModelExporter",
        "exporter": "_loss_smaller _verify_compare_fn_args=_check_compare_fn",
    },
    "gc": {"compat.drop_in.export": "Path _get_paths _largest_export_versions _negation"},
    "head.base_head": {
        "compat.drop_in.base_head": (
            "CLASSIFY_SERVING_KEY DEFAULT_SERVING_KEY PREDICT_SERVING_KEY REGRESS_SERVING_KEY call_loss_fn "
            "check_label_range check_prediction_keys create_estimator_spec_summary create_estimator_spec_train_op "
            "create_eval_metrics_tuple get_weights_and_check_match_logits update_metric_with_broadcast_weights "
            "validate_trainable_variables validate_update_ops validate_v2_optimizer"
        ),
        "heads.checks": (
            "check_dense_labels_match_logits_and_reshape=check_labels check_logits_final_dim=check_logits "
            "validate_loss_fn_args=check_loss_fn validate_loss_reduction=v1_reduction "
            "validate_n_classes=check_n_classes"
        ),
        "heads.classes": "all_class_ids all_classes classification_output",
    },
    "head.head_utils": {"heads": "binary_or_multi_class_head"},
    "head.sequential_head": {"compat.drop_in.sequential_head": "SequentialHeadWrapper"},
    "inputs.inputs": {"inputs": "numpy_input_fn pandas_input_fn"},
    "inputs.queues.feeding_functions": {"compat.drop_in.feeding_functions": "_enqueue_data=enqueue_data enqueue_data"},
    "keras_lib": {"compat.drop_in.keras_lib": "FormattedKeyError model_to_estimator"},
    "model_fn": {
        "compat.drop_in.tpu": "_TPUEstimatorSpec=TPUEstimatorSpec",
        "_engine.model_fn": "ModeKeys",
        "heads.keys": "AVERAGE_LOSS_METRIC_KEY=MetricKeys.LOSS_MEAN LOSS_METRIC_KEY=MetricKeys.LOSS",
    },
    "run_config": {
        "compat.drop_in.estimator": "path_to_str",
        "_engine.run_config": "get_default_session_config=default_session_config",
        "run_config": "TaskType",
    },
    **dict.fromkeys(["tpu.error_handling", "tpu.tpu_context", "tpu.util"], {}),  # imported, and used on TPUs alone
    "tpu.tpu_estimator": {"compat.drop_in.tpu.tpu_estimator": "ExportSavedModelApiVersion"},
    "training": {
        "compat.drop_in.training": "_ContinuousEvalListener _EvalResult _EvalStatus _TrainingExecutor _assert_eval_spec"
    },
    "util": {
        "compat.drop_in.util": "MultiHostDatasetInitializerHook parse_input_fn_result parse_iterator_result",
        "compat.drop_in.private_tensorflow": "fn_args",
    },
}
# Modules that TensorFlow had for tf.estimator alone, and where the old library has their names.
_OF_TENSORFLOW = {
    "tensorflow.python.tpu.error_handling": "tpu.error_handling",
    "tensorflow.python.tpu.tpu_config": "tpu.tpu_config",
    "tensorflow.python.tpu.tpu_context": "tpu.tpu_context",
    "tensorflow.python.tpu.tpu_estimator": "tpu.tpu_estimator",
    "tensorflow.python.tpu.util": "tpu.util",
}
_ESTIMATOR_LIB = {
    **_V1,
    **_EXPERIMENTAL_NAMES,
    "export": "tensorflow_estimator.python.estimator.export.export_lib",
    "inputs": "tensorflow_estimator.python.estimator.inputs.inputs",
    "model_to_estimator": "estimator_train.compat.drop_in.keras_lib:model_to_estimator",
}


def _old_library():
    """Returns the modules below tensorflow_estimator.python.estimator, where v2 classes end with V2."""
    modules = defaultdict(dict, estimator_lib=_ESTIMATOR_LIB)
    modules |= {module: places(table, "estimator_train.") for module, table in _BESIDES.items()}
    exported = [(_V1, _TOP), (_EXPERIMENTAL_NAMES, _EXPERIMENTAL), (_EXPORT_NAMES, _EXPORT), (_INPUT_NAMES, _INPUTS)]
    for face, table in [*exported, (_TPU_NAMES, _TPU)]:
        for module, names in table.items():
            modules[module] |= {name: face[name] for name in names.split()}
            modules[module] |= {f"{name}V2": _V2[name] for name in names.split() if name in _V1_OWN}
    return modules


_V2_PARTS = {"": _V2, ".experimental": _EXPERIMENTAL_NAMES, ".export": _EXPORT_NAMES}
_V1_PARTS = {
    "": _V1,
    ".experimental": _EXPERIMENTAL_NAMES | _LOGIT_FN_BUILDERS,
    ".export": _EXPORT_NAMES,
    ".inputs": _INPUT_NAMES,
    ".tpu": _TPU_NAMES,
    ".tpu.experimental": {},
}
_FACES = {
    "tensorflow.estimator": _V2_PARTS,
    "tensorflow.compat.v1.estimator": _V1_PARTS,
    "tensorflow.compat.v2.estimator": _V2_PARTS,
    "tensorflow_estimator.estimator": _V1_PARTS,
    "tensorflow_estimator.python.estimator.api._v1.estimator": _V1_PARTS,
    "tensorflow_estimator.python.estimator.api._v2.estimator": _V2_PARTS,
    "tensorflow.python.distribute.estimator_training": {"": _TRAINING_NAMES},
}


def _modules():
    """Returns a dict of every old module path to its names."""
    modules = {face + part: names for face, parts in _FACES.items() for part, names in parts.items()}
    library = _old_library()
    for path in ("tensorflow_estimator.python.estimator", "tensorflow.python.estimator"):
        modules |= {f"{path}.{module}": names for module, names in library.items()}
    for path in list(modules):
        while (path := path.rpartition(".")[0]).startswith(("tensorflow_estimator", "tensorflow.python.estimator")):
            modules.setdefault(path, {})
    modules |= {path: library[module] for path, module in _OF_TENSORFLOW.items()}
    return modules


MODULES = _modules()

_ON_TPU = "TPUEstimator(use_tpu=False); TPUs are not supported"
_FOREST = "the ydf package (Yggdrasil Decision Forests)"
_RNN = "model_to_estimator with a tf_keras model that has LSTM or GRU layers"

# Maps names of tf.estimator that this package lacks to their replacements.
INSTEAD = {
    **dict.fromkeys(["BatchConfig", "EmbeddingConfigSpec", "TPUContext"], _ON_TPU),
    **dict.fromkeys(["inference_on_tpu", "model_fn_inference_on_tpu"], _ON_TPU),
    **dict.fromkeys(["BoostedTreesClassifier", "BoostedTreesEstimator", "BoostedTreesRegressor"], _FOREST),
    **dict.fromkeys(["RNNClassifier", "RNNEstimator"], _RNN),
    **dict.fromkeys(_LOGIT_FN_BUILDERS, "tf.compat.v1.estimator.experimental"),
    "LinearSDCA": "optimizer='Ftrl', the default of linear models, with its l1 and l2 regularization",
    "KMeans": "scikit-learn's KMeans or MiniBatchKMeans",
    "estimator_evaluate": "Estimator.evaluate",
    "estimator_train": "Estimator.train",
    "init_run_config": "tf.estimator.RunConfig, which reads TF_CONFIG itself",
    "LinearModel": "linear_logit_fn_builder, or tf_keras.experimental.LinearModel",
    "SavedModelEstimator": "warm_start_from, which takes the path of a SavedModel, with its model_fn",
    "inputs": "tf.compat.v1.estimator.inputs",
    "tpu": "tf.compat.v1.estimator.tpu",
}
