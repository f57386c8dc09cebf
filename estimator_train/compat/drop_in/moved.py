"""Modules and names that TensorFlow itself has moved or removed since programs for tf.estimator imported them."""

import importlib
import importlib.machinery
import pkgutil

from estimator_train.compat.drop_in.names import places
from estimator_train.compat.drop_in.old_paths import Provider

# Each old module, and the modules that have its names today; none for a package of such modules.
MODULES = {
    **dict.fromkeys(
        ["tensorflow.examples", "tensorflow.examples.tutorials", "tensorflow.examples.tutorials.mnist"], ""
    ),
    "tensorflow.examples.tutorials.mnist.input_data": "estimator_train.compat.tf1.mnist_files",
    "tensorflow.python.distribute.distribution_strategy_context": "tensorflow.python.distribute.distribute_lib",
    "tensorflow.python.training.distribute": "tensorflow.python.distribute.distribute_lib",
    "tensorflow.python.training.distribution_strategy_context": "tensorflow.python.distribute.distribute_lib",
    "tensorflow.python.training.tracking": "",
    "tensorflow.python.training.tracking.autotrackable": "tensorflow.python.trackable.autotrackable",
    "tensorflow.python.training.tracking.base": "tensorflow.python.trackable.base",
    "tensorflow.python.training.tracking.data_structures": "tensorflow.python.trackable.data_structures",
    "tensorflow.python.training.tracking.graph_view": "tensorflow.python.checkpoint.graph_view",
    "tensorflow.python.training.tracking.layer_utils": "tensorflow.python.trackable.layer_utils",
    "tensorflow.python.training.tracking.python_state": "tensorflow.python.trackable.python_state",
    "tensorflow.python.training.tracking.tracking": (
        "tensorflow.python.trackable.asset tensorflow.python.trackable.autotrackable "
        "tensorflow.python.trackable.resource"
    ),
    "tensorflow.python.training.tracking.util": "tensorflow.python.checkpoint.checkpoint",
    "tensorflow.python.training.training_ops": "tensorflow.python.ops.gen_training_ops",
    # TensorFlow's own tensorflow.python.layers looks for these.
    "tf_keras.legacy_tf_layers": "",
    **{
        f"tf_keras.legacy_tf_layers.{name}": f"tf_keras.src.legacy_tf_layers.{name}"
        for name in ("base", "convolutional", "core", "normalization", "pooling")
    },
}

# Names that modules below tensorflow.python have lost, and where they are there today; "old=new" renames.
_INSIDE = {
    "framework.ops": {
        "framework.indexed_slices": "IndexedSlices",
        "framework.tensor": "Tensor",
        "framework.tensor_conversion_registry": "register_tensor_conversion_function",
    },
    "framework.graph_util": {"framework.convert_to_constants": "convert_variables_to_constants"},
    "ops.array_ops": {"ops.array_ops_stack": "stack unstack"},
    "ops.control_flow_ops": {
        "ops.cond": "cond",
        "ops.control_flow_assert": "Assert",
        "ops.control_flow_case": "case",
        "ops.while_loop": "while_loop",
    },
    "ops.variable_scope": {"ops.variable_v1": "variable=VariableV1"},
    "pywrap_tensorflow": {"training.py_checkpoint_reader": "NewCheckpointReader"},
    "saved_model.utils_impl": {"saved_model.path_helpers": "get_assets_dir get_variables_dir get_variables_path"},
    "util.nest": {"util.nest": "is_sequence=is_nested"},
    "util.tf_export": {"util.tf_export": "estimator_export=tf_export"},
}
# Names that TensorFlow has lost, and that are here, in modules of TensorFlow.
_HERE = dict.fromkeys(
    [
        "tensorflow._api.v2.compat.v1.data.experimental",
        "tensorflow._api.v2.compat.v2.data.experimental",
        "tensorflow._api.v2.data.experimental",
        "tensorflow.python.data.experimental.ops.iterator_ops",
    ],
    {"compat.drop_in.input_checkpoints": "CheckpointInputPipelineHook"},
)

# For each module, a dict of the names that it has lost to their places today, as "module:name".
NAMES = {
    **{f"tensorflow.python.{module}": places(table, "tensorflow.python.") for module, table in _INSIDE.items()},
    **{module: places(table, "estimator_train.") for module, table in _HERE.items()},
}


class Moved(Provider):
    """Provides the modules that TensorFlow has moved, unless it still has them at their old paths."""

    def sources(self, path):
        return MODULES[path].split() if path in MODULES else None

    def spec_of(self, path, parent_path):
        return importlib.machinery.PathFinder.find_spec(path, parent_path) or super().spec_of(path, parent_path)


def restore_names() -> None:
    """Sets the names that TensorFlow's modules have lost; a name that a module has stays as it is."""
    for path, table in NAMES.items():
        module = importlib.import_module(path)
        for name, place in table.items():
            if not hasattr(module, name):
                setattr(module, name, pkgutil.resolve_name(place))
