"""The old module `keras_lib`; tf_keras calls its model_to_estimator for tf.keras.estimator.model_to_estimator."""

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train import estimator_v1, keras_estimator
from estimator_train.estimator import Estimator
from estimator_train.export import ExportOutput
from estimator_train.run_config import RunConfig


def model_to_estimator(
    keras_model: keras.Model | Callable[[], keras.Model] | None = None,
    keras_model_path: str | os.PathLike[str] | None = None,
    custom_objects: dict[str, Any] | None = None,
    model_dir: str | os.PathLike[str] | None = None,
    config: RunConfig | None = None,
    checkpoint_format: str | None = None,
    use_v2_estimator: bool = False,
    metric_names_map: dict[str, str] | None = None,
    export_outputs: dict[str, type[ExportOutput]] | None = None,
) -> Estimator:
    """Calls `estimator_train.model_to_estimator`; without `use_v2_estimator`, makes it an Estimator of tf.compat.v1.

    Old scripts cannot pass safe_mode. As in TensorFlow 2.15, a lambda in a .keras file is therefore refused, while one
    in an .h5 file or a SavedModel is loaded, with a warning.
    """
    if keras_model is None and keras_model_path is not None:
        keras_model, keras_model_path = _load_model(os.fspath(keras_model_path), custom_objects), None
    others = model_dir, config, checkpoint_format or "checkpoint", metric_names_map, export_outputs
    estimator = keras_estimator.model_to_estimator(keras_model, keras_model_path, custom_objects, *others)
    if use_v2_estimator:
        return estimator
    return estimator_v1.Estimator(estimator._model, config=estimator.config)


def _load_model(path, custom_objects):
    refused = path.endswith(".keras")
    model, has_lambda = keras_estimator.load_model(path, custom_objects, safe_mode=refused)
    if has_lambda and refused:
        raise ValueError(
            f"{path} contains a lambda, which is Python code by whoever saved the file. TensorFlow 2.15 refused it, "
            "too; if you trust the file, load it yourself with safe_mode=False and pass the model."
        )
    if has_lambda:
        tf.get_logger().warning(
            "%s contains a lambda, which is Python code by whoever saved the file; "
            "estimator_train.model_to_estimator refuses such files unless safe_mode=False.",
            path,
        )
    return model


class FormattedKeyError(KeyError):
    """A KeyError that prints its message with line breaks, rather than as a literal."""

    def __str__(self) -> str:
        return str(self.args[0])
