"""keras_lib.model_to_estimator, which tf_keras calls for tf.keras.estimator.model_to_estimator."""

from __future__ import annotations

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
    """`estimator_train.model_to_estimator`, with the class of the Estimator to choose.

    A script of tf.estimator's days loads its own files and has no safe_mode to pass: a lambda in an .h5 file or a
    SavedModel is loaded with a warning. One in a .keras file is refused, as TensorFlow 2.15 refused it.

    Args:
      checkpoint_format: None means "checkpoint".
      use_v2_estimator: False: an Estimator of tf.compat.v1.estimator.
      The others are those of `estimator_train.model_to_estimator`.
    """
    if keras_model is None and keras_model_path is not None:
        keras_model, keras_model_path = _load_model(os.fspath(keras_model_path), custom_objects), None
    estimator = keras_estimator.model_to_estimator(
        keras_model,
        keras_model_path,
        custom_objects,
        model_dir,
        config,
        checkpoint_format or "checkpoint",
        metric_names_map,
        export_outputs,
    )
    return estimator if use_v2_estimator else estimator_v1.Estimator(estimator._model, config=estimator.config)


def _load_model(path, custom_objects):
    if path.endswith(".keras"):
        return keras.models.load_model(path, custom_objects=custom_objects)
    model, has_lambda = keras_estimator.load_model(path, custom_objects, safe_mode=False)
    if has_lambda:
        tf.get_logger().warning(
            "%s holds a lambda, Python code of whoever saved it; estimator_train.model_to_estimator refuses such files "
            "unless safe_mode=False.",
            path,
        )
    return model


class FormattedKeyError(KeyError):
    """A KeyError whose message is printed as it is, with its line breaks, and not as a literal."""

    def __str__(self) -> str:
        return str(self.args[0])
