"""model_to_estimator: a compiled Keras model as an Estimator."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tf_keras as keras

from estimator_train.estimator import Estimator
from estimator_train.export import ExportOutput
from estimator_train.keras.cloning import ModelSource
from estimator_train.keras.model import KerasModel
from estimator_train.run_config import RunConfig
from estimator_train.session.private_names import LoadedLambdas, eager_classes, eager_mode


def model_to_estimator(
    keras_model: keras.Model | Callable[[], keras.Model] | None = None,
    keras_model_path: str | os.PathLike[str] | None = None,
    custom_objects: dict[str, Any] | None = None,
    model_dir: str | os.PathLike[str] | None = None,
    config: RunConfig | None = None,
    checkpoint_format: str = "checkpoint",
    metric_names_map: dict[str, str] | None = None,
    export_outputs: dict[str, type[ExportOutput]] | None = None,
    *,
    safe_mode: bool = True,
) -> Estimator:
    """An `Estimator` that trains, evaluates and predicts with a copy of a compiled Keras model.

    The copy carries all of the model's state: weights, BatchNorm and Normalization statistics, lookup tables, optimizer
    settings and slots. The given model stays as it is and usable.

    Args:
      keras_model: a compiled `tf_keras.Model`; or, for a model that Keras cannot copy, a function without arguments
        that builds and compiles it.
      keras_model_path: a saved compiled model (.keras, .h5 or a SavedModel directory), instead of `keras_model`.
      custom_objects: dict of names to the custom classes and functions of the model.
      model_dir: directory for checkpoints and events, made when missing; None: `config.model_dir` or a temporary one.
      config: `RunConfig`; `train_distribute` is where it trains, `eval_distribute` where it is evaluated.
      checkpoint_format: "checkpoint" or "saver", as tf.estimator has them; both write object-based checkpoints.
      metric_names_map: dict of every compiled metric name to the name it gets in results.
      export_outputs: dict of output names to ExportOutput classes, for the signatures of exports.
      safe_mode: whether a file at `keras_model_path` that holds a lambda, such as that of a Lambda layer, is refused.
        A lambda is saved as Python bytecode: pass False only for files that you trust as you trust a program.

    Raises:
      ValueError: no model or two given, not compiled, a Keras 3 model, one that cannot be copied, a bad format, or a
        file with a lambda.
    """
    if (keras_model is None) == (keras_model_path is None):
        raise ValueError("Give either keras_model or keras_model_path.")
    if checkpoint_format not in ("checkpoint", "saver"):
        raise ValueError(f"checkpoint_format must be 'checkpoint' or 'saver', given: {checkpoint_format!r}")
    if keras_model_path is not None:
        keras_model, has_lambda = load_model(keras_model_path, custom_objects, safe_mode)
        if has_lambda and safe_mode:
            raise ValueError(
                f"{os.fspath(keras_model_path)} holds a lambda, Python code that would run; pass safe_mode=False if "
                "you trust the file as you trust a program."
            )
    source = ModelSource(keras_model, custom_objects, seed=config and config.tf_random_seed)
    return Estimator(KerasModel(source, metric_names_map, export_outputs), model_dir, config)


def load_model(
    path: str | os.PathLike[str], custom_objects: dict[str, Any] | None, safe_mode: bool
) -> tuple[keras.Model | None, bool]:
    """Returns the saved model at `path`, and whether it holds a lambda; None for the model if that is refused."""
    with eager_classes(), eager_mode(), LoadedLambdas(refused=safe_mode) as lambdas:
        try:
            model = keras.models.load_model(os.fspath(path), custom_objects=custom_objects)
        except ValueError:
            if not (safe_mode and lambdas.found):
                raise
            model = None
    return model, lambdas.found
