"""Lists the files that TensorFlow 1 had below the `python` of a module of tf.contrib, for imports by their paths."""

# By folder below tensorflow.contrib: the files of TensorFlow 1.15, and those of earlier versions with names that are
# supported, but none that `instead` has. A name in an import is a file only if it is listed; otherwise an absent name
# would be taken for one.
_FILES = {
    "cluster_resolver.python": "",
    "cluster_resolver.python.training": (
        "cluster_resolver gce_cluster_resolver kubernetes_cluster_resolver slurm_cluster_resolver "
        "tfconfig_cluster_resolver tpu_cluster_resolver"
    ),
    "crf.python": "",
    "crf.python.ops": "crf",
    "data.python": "",
    "data.python.ops": (
        "batching counter dataset_ops enumerate_ops error_ops get_single_element grouping interleave_ops iterator_ops "
        "parsing_ops prefetching_ops random_ops readers resampling scan_ops shuffle_ops sliding threadpool unique "
        "writers"
    ),
    "distribute.python": (
        "collective_all_reduce_strategy cross_tower_ops mirrored_strategy monitor one_device_strategy "
        "parameter_server_strategy tpu_strategy values"
    ),
    "eager.python": "datasets metrics metrics_impl network parameter_server saver tfe",
    "estimator.python": "",
    "estimator.python.estimator": (
        "boosted_trees dnn dnn_linear_combined dnn_with_layer_annotations early_stopping export exporter extenders "
        "head hooks linear logit_fns multi_head rnn saved_model_estimator"
    ),
    "framework.python": "",
    "framework.python.framework": "checkpoint_utils experimental graph_util tensor_util",
    "framework.python.ops": (
        "arg_scope audio_ops checkpoint_ops gen_variable_ops ops prettyprint_ops script_ops sort_ops variables"
    ),
    "layers.python": "",
    "layers.python.layers": (
        "embedding_ops encoders feature_column feature_column_ops initializers layers normalization optimizers "
        "regularizers rev_block_lib summaries target_column utils"
    ),
    "layers.python.ops": "bucketization_op sparse_feature_cross_op sparse_ops",
    "learn.python": "",
    "learn.python.learn": (
        "basic_session_run_hooks estimators evaluable experiment export_strategy graph_actions learn_runner "
        "learn_runner_lib metric_spec monitored_session monitors session_run_hook summary_writer_cache "
        "trainable"
    ),
    "learn.python.learn.datasets": "base mnist produce_small_datasets synthetic text_datasets",
    "learn.python.learn.estimators": (
        "_sklearn composable_model constants debug dnn dnn_linear_combined dynamic_rnn_estimator estimator "
        "estimator_test_utils head kmeans linear logistic_regressor metric_key model_fn prediction_key rnn_common "
        "run_config state_saving_rnn_estimator svm tensor_signature test_data"
    ),
    "learn.python.learn.learn_io": "dask_io data_feeder generator_io graph_io numpy_io pandas_io",
    "learn.python.learn.ops": "embeddings_ops losses_ops seq2seq_ops",
    "learn.python.learn.utils": "export gc input_fn_utils inspect_checkpoint saved_model_export_utils",
    "losses.python": "",
    "losses.python.losses": "loss_ops",
    "losses.python.metric_learning": "metric_loss_ops",
    "metrics.python": "",
    "metrics.python.metrics": "classification",
    "metrics.python.ops": "confusion_matrix_ops histogram_ops metric_ops set_ops",
    "opt.python": "",
    "opt.python.training": (
        "adam_gs_optimizer adamax addsign agn_optimizer drop_stale_gradient_optimizer elastic_average_optimizer "
        "external_optimizer ggt lars_optimizer lazy_adam_gs_optimizer lazy_adam_optimizer matrix_functions "
        "model_average_optimizer moving_average_optimizer multitask_optimizer_wrapper nadam_optimizer powersign "
        "reg_adagrad_optimizer shampoo sign_decay variable_clipping_optimizer weight_decay_optimizers"
    ),
    "rnn.python": "",
    "rnn.python.ops": "core_rnn core_rnn_cell core_rnn_cell_impl fused_rnn_cell gru_ops lstm_ops rnn rnn_cell",
    "rnn.python.tools": "checkpoint_convert",
    "saved_model.python": "",
    "saved_model.python.saved_model": "keras_saved_model reader signature_def_utils",
    "tpu.python": "",
    "tpu.python.ops": "tpu_ops",
    "tpu.python.profiler": "",
    "tpu.python.tpu": (
        "async_checkpoint bfloat16 datasets device_assignment error_handling feature_column functional keras_support "
        "session_support tensor_tracer topology tpu tpu_config tpu_context tpu_embedding tpu_embedding_gradient "
        "tpu_estimator tpu_feed tpu_function tpu_optimizer tpu_sharding tpu_system_metadata training_loop util"
    ),
    "training.python": "",
    "training.python.training": (
        "bucket_ops device_setter evaluation feeding_queue_runner hparam hparam_pb2 resample sampling_ops "
        "sequence_queueing_state_saver training tuner"
    ),
}

# Paths below tensorflow.contrib that can be imported.
PATHS = frozenset([*_FILES, *(f"{folder}.{name}" for folder, names in _FILES.items() for name in names.split())])
