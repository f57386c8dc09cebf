"""keras_lib.model_to_estimator, which tf_keras calls for tf.keras.estimator.model_to_estimator."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

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

    Args:
      checkpoint_format: None means "checkpoint".
      use_v2_estimator: False: an Estimator of tf.compat.v1.estimator.
      The others are those of `estimator_train.model_to_estimator`.
    """
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
