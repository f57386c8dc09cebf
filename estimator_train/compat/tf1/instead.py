"""Maps names of tf.contrib that are not supported, as paths below it, to their replacements."""

# Each replacement, and what it replaces: modules first, then names in supported modules.
_REPLACED = {
    "tf.distribute's cross_device_ops": "all_reduce",
    "tf.autograph": "autograph",
    "tf.nondifferentiable_batch_function": "batching",
    "the tensorflow-probability package": "bayesflow",
    "the tensorflow-io package": "bigtable cloud ffmpeg hadoop kafka kinesis data.LMDBDataset",
    "the ydf package (Yggdrasil Decision Forests)": (
        "boosted_trees decision_trees tensor_forest estimator.BoostedTreesEstimator "
        "estimator.boosted_trees_classifier_train_in_memory estimator.boosted_trees_regressor_train_in_memory"
    ),
    "tf.train.Checkpoint": "checkpoint eager.Saver eager.save_network_checkpoint eager.restore_network_checkpoint",
    "the tensorflow-compression package": "coder",
    "tf.xla.experimental": "compiler",
    "tf.import_graph_def": "copy_graph",
    "tf.keras.layers.LSTM and GRU, which use cuDNN on a GPU": "cudnn_rnn",
    "tf.summary": "deprecated",
    "tf.distributions, or the tensorflow-probability package": "distributions",
    "scikit-learn": "factorization nearest_neighbor learn.KMeansClustering learn.SVM",
    "tf.feature_column, and tf.keras.experimental.SequenceFeatures for sequence_input_layer": "feature_column",
    "tf.import_graph_def with input_map": "graph_editor",
    "tf.train.ProfilerHook": "hooks",
    "tf.contrib.training.HParams": "hparam",
    "tf.image, and tf.raw_ops.ImageProjectiveTransformV3 for transform, rotate and translate": "image",
    "tf.data": (
        "input_pipeline training.FeedingQueueRunner training.NextQueuedSequenceBatch "
        "training.SequenceQueueingStateSaver training.batch_sequences_with_states"
    ),
    "tfp.math.ode of the tensorflow-probability package": "integrate",
    "tf.keras.layers.experimental.RandomFourierFeatures": "kernel_methods",
    "the kfac package": "kfac",
    "tf.Tensor, with your own names for its axes": "labeled_tensor",
    "tf.while_loop or a tf.keras model; the decoders were in tensorflow-addons, which is discontinued": (
        "legacy_seq2seq seq2seq rnn.AttentionCellWrapper"
    ),
    "tf.io.decode_csv or sklearn.datasets.load_svmlight_file": "libsvm",
    "tf.linalg.LinearOperator": "linalg",
    "tf.train.FtrlOptimizer with its l1 and l2 regularization": "linear_optimizer",
    "tf.lite": "lite remote_fused_graph",
    "tf.config.experimental.get_memory_info": "memory_stats",
    "the pytorch-metric-learning or tensorflow-similarity package": "metric_learning",
    "tf.train.experimental.enable_mixed_precision_graph_rewrite": "mixed_precision",
    "the tensorflow-model-optimization package": "model_pruning quantize",
    "tf.distribute.NcclAllReduce": "nccl",
    "tf.nn": "nn",
    "tf.keras.optimizers.legacy": "optimizer_v2",
    "tf.nn.depth_to_space": "periodic_resample",
    "the examples of TensorFlow Lite": "pi_examples",
    "tf.io.decode_proto and encode_proto": "proto",
    "tf.quantization": "quantization",
    "tf.nn.dynamic_rnn": "recurrent",
    "tf.math.segment_sum and similar functions": "reduce_slice_ops",
    "tf.gather_nd, or tfp.math.batch_interp_regular_nd_grid of tensorflow-probability": "resampler",
    "tf.py_func with your own client": "rpc",
    "tf.saved_model": "session_bundle",
    "tf.signal": "signal",
    "tf.linalg.experimental.conjugate_gradient": "solvers",
    "tf.nn.softmax, or your own sparsemax; it was in tensorflow-addons, which is discontinued": "sparsemax",
    "tf.layers": "specs learn.models",
    "tf.data with prefetch": "staging",
    "tf.profiler": (
        "stat_summarizer tfprof data.StatsAggregator data.latency_stats data.bytes_produced_stats "
        "data.set_stats_aggregator"
    ),
    "tf.random.stateless_uniform and similar functions": "stateless",
    "the tensorboard package's plugins": "tensorboard",
    "tf.experimental.tensorrt, on a TensorFlow built with TensorRT": "tensorrt",
    "tf.test": "testing",
    "the tensorflow-text package": "text",
    "tf.keras.estimator.model_to_estimator with your own model": "timeseries",
    "tf.contrib.tpu.TPUEstimator": "tpu_estimator",
    "tf.train": "training_ops",
    "tf.make_tensor_proto, tf.make_ndarray and tf.get_static_value": "util",
    "tf.distribute": "verbs metrics.aggregate_metrics_for_replicas",
    "crf_decode": "crf.CrfDecodeBackwardRnnCell crf.CrfDecodeForwardRnnCell",
    "crf_log_norm": "crf.CrfForwardRnnCell",
    "Dataset.map with tf.ensure_shape": "data.AssertElementShape data.assert_element_shape",
    "tf.data.Options().threading": "data.set_threadpool",
    "Dataset.window": "data.sliding_window_batch",
    "Dataset.reduce": "data.reduce_dataset",
    "MirroredStrategy over GPUs; TPUs are not supported": (
        "distribute.TPUStrategy distribute.initialize_tpu_system tpu.TPUDistributionStrategy tpu.keras_to_tpu_model "
        "tpu.DeviceAssignment tpu.Topology tpu.batch_parallel tpu.replicate tpu.rewrite tpu.shard"
    ),
    "tf.train.Server with TF_CONFIG; train_and_evaluate starts it": "distribute.run_standard_tensorflow_server",
    "tf.contrib.distribute.get_strategy": "distribute.get_distribution_strategy",
    "tf.contrib.distribute.has_strategy": "distribute.has_distribution_strategy",
    "tf.contrib.distribute.get_replica_context": "distribute.require_replica_context",
    "tf.Module or a tf.keras model": "eager.EagerVariableStore",
    "tf.keras.Model": "eager.Network",
    "tf.GradientTape": (
        "eager.gradients_function eager.implicit_gradients eager.implicit_value_and_gradients "
        "eager.value_and_gradients_function"
    ),
    "tf.debugging.enable_check_numerics": "eager.seterr",
    "tf.Module": "eager.Checkpointable",
    "tf.config.experimental.set_synchronous_execution": "eager.execution_mode",
    "variables() of the optimizer": "eager.get_optimizer_variables",
    "tf.app.run": "eager.run",
    "tf.keras.estimator.model_to_estimator with a model that has LSTM or GRU layers": (
        "estimator.RNNClassifier estimator.RNNEstimator learn.DynamicRnnEstimator"
    ),
    "warm_start_from of tf.estimator.Estimator, or tf.saved_model.load": "estimator.SavedModelEstimator",
    "tf.estimator.RunConfig(train_distribute=tf.distribute.MirroredStrategy())": (
        "estimator.TowerOptimizer estimator.replicate_model_fn opt.AGNOptimizer opt.ElasticAverageOptimizer "
        "opt.ModelAverageOptimizer"
    ),
    "Estimator.experimental_export_all_saved_models": (
        "estimator.export_saved_model_for_mode estimator.export_all_saved_models"
    ),
    "tf.train.load_variable and numpy": "framework.load_and_remap_matrix",
    "tf.squeeze": "framework.remove_squeezable_dimensions",
    "tf.nn.safe_embedding_lookup_sparse": "framework.safe_embedding_lookup_sparse layers.safe_embedding_lookup_sparse",
    "tf.broadcast_to": "framework.broadcast_to",
    "tf.convert_to_tensor_or_sparse_tensor": "framework.convert_to_tensor_or_sparse_tensor",
    "tf.invert_permutation": "framework.invert_permutation",
    "tf.py_func": "framework.py_func",
    "tf.add_n": "framework.reduce_sum_n",
    "tf.contrib.layers.utils.smart_cond": "framework.smart_cond",
    "tf.ensure_shape": "framework.with_shape",
    "tf.nn.embedding_lookup and tf.reduce_mean": "layers.bow_encoder",
    "tf.feature_column.linear_model": (
        "layers.joint_weighted_sum_from_feature_columns layers.weighted_sum_from_feature_columns"
    ),
    "tf.io.parse_example with make_parse_example_spec": "layers.parse_feature_columns_from_examples",
    "tf.nn.embedding_lookup": "layers.embedding_lookup_unique rnn.EmbeddingWrapper",
    "tf.feature_column.numeric_column": "layers.infer_real_valued_columns learn.infer_real_valued_columns_from_input",
    "tf.feature_column.crossed_column": "layers.sparse_feature_cross",
    "tf.estimator.Estimator with a model_fn that returns an EstimatorSpec": (
        "learn.Estimator learn.BaseEstimator learn.Evaluable learn.Trainable learn.SKCompat"
    ),
    "tf.estimator.DNNClassifier": "learn.DNNClassifier",
    "tf.estimator.DNNEstimator": "learn.DNNEstimator",
    "tf.estimator.DNNRegressor": "learn.DNNRegressor",
    "tf.estimator.DNNLinearCombinedClassifier": "learn.DNNLinearCombinedClassifier",
    "tf.estimator.DNNLinearCombinedEstimator": "learn.DNNLinearCombinedEstimator",
    "tf.estimator.DNNLinearCombinedRegressor": "learn.DNNLinearCombinedRegressor",
    "tf.estimator.LinearClassifier": "learn.LinearClassifier learn.LogisticRegressor",
    "tf.estimator.LinearEstimator": "learn.LinearEstimator",
    "tf.estimator.LinearRegressor": "learn.LinearRegressor",
    "tf.estimator.FinalExporter": "learn.ExportStrategy",
    "eval_metric_ops of the EstimatorSpec": "learn.MetricSpec",
    "tf.estimator.EstimatorSpec": "learn.ModelFnOps",
    "DataFrame.to_numpy": "learn.extract_pandas_data",
    "tf.estimator.inputs": "learn.io",
    "tf.estimator.inputs.pandas_input_fn": "learn.pandas_input_fn",
    "tf.keras.preprocessing.text": "learn.preprocessing",
    "tf.data.TFRecordDataset": "learn.read_batch_examples",
    "tf.contrib.data.make_batched_features_dataset": "learn.read_batch_features",
    "a tf.Session": "learn.run_n",
    "tf.train.NanLossDuringTrainingError": "learn.NanLossDuringTrainingError",
    "tf.contrib.estimator.multi_class_head": "learn.multi_class_head",
    "tf.contrib.estimator.multi_head": "learn.multi_head",
    "tf.contrib.estimator.multi_label_head": "learn.multi_label_head",
    "tf.estimator.inputs.numpy_input_fn": "learn.numpy_input_fn",
    "tf.contrib.estimator.poisson_regression_head": "learn.poisson_regression_head",
    "tf.contrib.estimator.regression_head": "learn.regression_head",
    "tf.lookup.experimental.DenseHashTable": "lookup.MutableDenseHashTable",
    "tf.contrib.lookup.index_table_from_file": "lookup.string_to_index_table_from_file",
    "tf.contrib.lookup.index_table_from_tensor": "lookup.string_to_index_table_from_tensor",
    "tf.sets.difference": "metrics.set_difference",
    "tf.sets.intersection": "metrics.set_intersection",
    "tf.sets.size": "metrics.set_size",
    "tf.sets.union": "metrics.set_union",
    "tf.train.AdamOptimizer or tf.contrib.opt.AdamWOptimizer": (
        "opt.AddSignOptimizer opt.GGTOptimizer opt.PowerSignOptimizer opt.ShampooOptimizer"
    ),
    "tf.train.SyncReplicasOptimizer": "opt.DropStaleGradientOptimizer",
    "scipy.optimize with tf.py_func, or an optimizer of tf.train": (
        "opt.ExternalOptimizerInterface opt.ScipyOptimizerInterface"
    ),
    "tf.contrib.opt.LazyAdamOptimizer": "opt.LazyAdamGSOptimizer",
    "a tf.train optimizer for each task": "opt.MultitaskOptimizerWrapper",
    "tf.keras.optimizers.Nadam": "opt.NadamOptimizer",
    "tf.train.AdagradOptimizer": "opt.RegAdagradOptimizer",
    "the `constraint` of tf.get_variable": "opt.VariableClippingOptimizer",
    "tf.keras.optimizers.Adamax": "opt.AdaMaxOptimizer",
    "tf.clip_by_global_norm": "opt.clip_gradients_by_global_norm",
    "tf.contrib.predictor.from_estimator": "predictor.from_contrib_estimator",
    "tf.keras.layers.ConvLSTM2D": "rnn.ConvLSTMCell rnn.Conv2DLSTMCell",
    "tf.keras.layers.ConvLSTM1D": "rnn.Conv1DLSTMCell",
    "tf.keras.layers.ConvLSTM3D": "rnn.Conv3DLSTMCell",
    "tf.nn.rnn_cell.LSTMCell": "rnn.CoupledInputForgetGateLSTMCell rnn.NASCell rnn.PhasedLSTMCell",
    "tf.nn.rnn_cell.GRUCell": "rnn.UGRNNCell",
    "an LSTMCell for each group of units": "rnn.GLSTMCell",
    "tf.contrib.rnn.GRUBlockCellV2, whose variables have other names": "rnn.GRUBlockCell",
    "tf.layers.dense": "rnn.InputProjectionWrapper rnn.OutputProjectionWrapper",
    "tf.contrib.rnn.stack_bidirectional_dynamic_rnn": "rnn.stack_bidirectional_rnn",
    "tf.keras.models.load_model": "saved_model.load_keras_model",
    "tf.keras.models.save_model": "saved_model.save_keras_model",
    "tf.contrib.summary.create_file_writer": "summary.create_summary_file_writer",
    "eval_dir() of the Estimator": "summary.eval_dir",
    "tf.train.CheckpointSaverHook": "tpu.AsyncCheckpointSaverHook",
    "tf.contrib.data.bucket_by_sequence_length": "training.bucket training.bucket_by_sequence_length",
    "tf.data.Dataset.from_generator": "training.python_input",
    "tf.train.replica_device_setter without its ps_strategy": "training.GreedyLoadBalancingStrategy",
    "tf.contrib.data.rejection_resample": (
        "training.rejection_sample training.resample_at_rate training.stratified_sample training.weighted_resample"
    ),
}

INSTEAD = {name: replacement for replacement, names in _REPLACED.items() for name in names.split()}
