"""Maps names of tf.contrib to the places where TensorFlow has them today."""

from estimator_train.compat.drop_in.names import places
from estimator_train.compat.tf1 import contrib

# For each module of tf.contrib, a dict of modules below tf.compat to the names in them. "old=new" renames.
_MOVED = {
    "cluster_resolver": {
        "v1.distribute.cluster_resolver": (
            "ClusterResolver GceClusterResolver=GCEClusterResolver KubernetesClusterResolver SimpleClusterResolver "
            "SlurmClusterResolver TFConfigClusterResolver UnionClusterResolver=UnionResolver"
        )
    },
    "data": {
        "v1.data": "Dataset FixedLengthRecordDataset Iterator TFRecordDataset TextLineDataset",
        "v1.data.experimental": (
            "AUTOTUNE CheckpointInputPipelineHook Counter CsvDataset Optional RandomDataset Reducer SqlDataset "
            "TFRecordWriter bucket_by_sequence_length choose_from_datasets copy_to_device dense_to_sparse_batch "
            "enumerate_dataset get_next_as_optional get_single_element group_by_reducer group_by_window ignore_errors "
            "make_batched_features_dataset make_csv_dataset make_saveable_from_iterator map_and_batch "
            "parallel_interleave parse_example_dataset prefetch_to_device rejection_resample sample_from_datasets scan "
            "shuffle_and_repeat unbatch unique"
        ),
    },
    "distribute": {
        "v1.distribute": (
            "CrossDeviceOps DistributionStrategy=Strategy OneDeviceStrategy "
            "ReductionToOneDeviceCrossDeviceOps=ReductionToOneDevice get_cross_replica_context=get_strategy "
            "get_loss_reduction get_replica_context get_strategy has_strategy in_cross_replica_context"
        )
    },
    "eager": {
        "v1": (
            "GradientTape custom_gradient defun=function enable_eager_execution function make_template "
            "py_func=py_function wrap_function"
        ),
        "v2": "executing_eagerly in_eager_mode=executing_eagerly",
        "v2.train": "Checkpoint",
    },
    "framework": {
        "v1": "CriticalSection argsort is_tensor sort",
        "v1.debugging": "assert_same_float_dtype assert_scalar",
        "v1.train": "checkpoints_iterator init_from_checkpoint list_variables load_checkpoint load_variable",
    },
    "lookup": {
        "v1.lookup": "KeyValueTensorInitializer TextFileIndex TextFileInitializer",
        "v1.lookup.experimental": "MutableHashTable",
    },
    "rnn": {
        "v1.nn": "static_bidirectional_rnn static_rnn static_state_saving_rnn",
        "v1.nn.rnn_cell": (
            "BasicLSTMCell BasicRNNCell DeviceWrapper DropoutWrapper GRUCell LSTMCell LSTMStateTuple MultiRNNCell "
            "RNNCell ResidualWrapper"
        ),
    },
    "summary": {
        "v1.summary": "all_summary_ops=all_v2_summary_ops initialize",
        "v2.summary": "SummaryWriter create_noop_writer flush graph should_record_summaries",
    },
    "tpu": {"v1.tpu": "bfloat16_scope cross_replica_sum initialize_system outside_compilation shutdown_system"},
}

# The place below tf.compat of each name, by module of `compat.tf1.contrib`.
MOVED = {
    f"{contrib.__name__}.{module}": {name: place.replace(":", ".") for name, place in places(table).items()}
    for module, table in _MOVED.items()
}
