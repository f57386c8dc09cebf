"""model_to_estimator: makes an Estimator from a compiled Keras model."""

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine import checkpoints
from estimator_train._engine.keras.adapter_choice import load_model, model_source
from estimator_train._engine.keras.model import KerasModel
from estimator_train._engine.keras_forms import refuses_keras_arguments
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train.estimator import Estimator
from estimator_train.export import ExportOutput
from estimator_train.run_config import RunConfig


@refuses_keras_arguments
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
    warm_start_from: str | os.PathLike[str] | None = None,
) -> Estimator:
    """Returns an `Estimator` that trains, evaluates and predicts with a copy of a compiled Keras model.

    The copy has all of the model's state: weights, BatchNorm and Normalization statistics, lookup tables, optimizer
    settings and slots. The given model is not modified and remains usable.

        >>> model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
        >>> model.compile("sgd", "mse")
        >>> estimator = et.model_to_estimator(model, config=et.RunConfig(model_dir="runs/keras"))
        >>> estimator = estimator.train(train_input_fn, max_steps=20)
        >>> int(estimator.evaluate(eval_input_fn)["global_step"])
        20

    Args:
      keras_model: a compiled model of tf_keras, or of Keras 3 with the TensorFlow backend. For a model that Keras
        cannot copy, pass a function without arguments that builds and compiles it.
      keras_model_path: path of a saved compiled model (.keras, .h5 or a SavedModel directory), instead of
        `keras_model`. It is loaded by the Keras version that saved it.
      custom_objects: dict of names to the custom classes and functions of the model.
      model_dir: directory of checkpoints and event files, created if missing; None means `config.model_dir` or a
        temporary directory.
      config: a `RunConfig`; `train_distribute` is the strategy for training, `eval_distribute` the one for evaluation.
      checkpoint_format: "checkpoint" or "saver", for compatibility; both write object-based checkpoints.
      metric_names_map: dict that maps every compiled metric name to its name in results.
      export_outputs: dict of output names to ExportOutput classes, for the signatures of exports.
      safe_mode: whether to refuse a file at `keras_model_path` that contains a lambda, for example in a Lambda layer.
        Lambdas are saved as Python bytecode, so pass False only for files that you trust as you would a program.
      warm_start_from: path prefix of a checkpoint, or a directory, whose newest checkpoint is used. The model starts
        with its weights if `model_dir` has no checkpoint yet; the optimizer and the global step start from scratch. A
        warning lists weights that are missing in the checkpoint or have another shape, such as a new last layer's.

    Raises:
      ValueError: If no model or two are given, the model is not compiled or cannot be copied, the file contains a
        lambda or only weights, `checkpoint_format` is unknown, or `warm_start_from` has no checkpoint.
    """
    if keras_model is None and keras_model_path is None:
        raise ValueError("Either `keras_model` or `keras_model_path` needs to be provided.")
    if keras_model is not None and keras_model_path is not None:
        raise ValueError("Give either `keras_model` or `keras_model_path`, but not both.")
    if checkpoint_format not in ("checkpoint", "saver"):
        raise ValueError(f'Checkpoint format must be one of "checkpoint" or "saver". Got {checkpoint_format}')
    if keras_model_path is not None:
        keras_model = _load(keras_model_path, custom_objects, safe_mode)
    source = model_source(keras_model, custom_objects, getattr(config, "tf_random_seed", None))
    if warm_start_from is not None:
        with eager_mode():
            source.take_weights(_checkpoint(os.fspath(warm_start_from)))
    return Estimator(KerasModel(source, metric_names_map, export_outputs), model_dir, config)


def _load(path: str | os.PathLike[str], custom_objects: dict[str, Any] | None, safe_mode: bool) -> keras.Model:
    model, has_lambda = load_model(path, custom_objects, safe_mode)
    if has_lambda and safe_mode:
        raise ValueError(
            f"{os.fspath(path)} contains a lambda, which is Python code that would run; pass safe_mode=False if you "
            "trust the file as you would a program."
        )
    return model


def _checkpoint(path: str) -> str:
    if not tf.io.gfile.isdir(path) or tf.io.gfile.exists(f"{path}.index"):
        return path
    newest = checkpoints.latest_intact(path)
    if newest is None:
        raise ValueError(f"warm_start_from={path!r} has no checkpoint; pass a directory that has one, or its prefix.")
    return newest
