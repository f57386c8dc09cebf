"""model_to_estimator: a compiled Keras model as an Estimator."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train import checkpoints
from estimator_train.estimator import Estimator
from estimator_train.export import ExportOutput
from estimator_train.keras.generations import load_model, model_source
from estimator_train.keras.model import KerasModel
from estimator_train.run_config import RunConfig
from estimator_train.session.private_names import eager_mode


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
    """An `Estimator` that trains, evaluates and predicts with a copy of a compiled Keras model.

    The copy carries all of the model's state: weights, BatchNorm and Normalization statistics, lookup tables, optimizer
    settings and slots. The given model stays as it is and usable.

        >>> model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
        >>> model.compile("sgd", "mse")
        >>> estimator = et.model_to_estimator(model, config=et.RunConfig(model_dir="runs/keras"))
        >>> estimator = estimator.train(train_input_fn, max_steps=20)
        >>> int(estimator.evaluate(eval_input_fn)["global_step"])
        20

    Args:
      keras_model: a compiled model of tf_keras, or of Keras 3 on TensorFlow; or, for a model that Keras cannot copy, a
        function without arguments that builds and compiles it.
      keras_model_path: a saved compiled model (.keras, .h5 or a SavedModel directory), instead of `keras_model`; the
        Keras that saved it loads it.
      custom_objects: dict of names to the custom classes and functions of the model.
      model_dir: directory for checkpoints and events, made when missing; None: `config.model_dir` or a temporary one.
      config: `RunConfig`; `train_distribute` is where it trains, `eval_distribute` where it is evaluated.
      checkpoint_format: "checkpoint" or "saver", as tf.estimator has them; both write object-based checkpoints.
      metric_names_map: dict of every compiled metric name to the name it gets in results.
      export_outputs: dict of output names to ExportOutput classes, for the signatures of exports.
      safe_mode: whether a file at `keras_model_path` that holds a lambda, such as that of a Lambda layer, is refused.
        A lambda is saved as Python bytecode: pass False only for files that you trust as you trust a program.
      warm_start_from: a checkpoint's path prefix, or a directory, whose newest one is used. If `model_dir` has no
        checkpoint yet, the model starts with its weights; the optimizer and the global step start from scratch. Weights
        that the checkpoint lacks or has in another shape, such as those of a new last layer, are named in a warning.

    Raises:
      ValueError: no model or two given, not compiled, or with parts of another Keras, Keras 3 on another backend, a
        model that cannot be copied, a bad format, or a file with a lambda or with weights alone.
    """
    if keras_model is None and keras_model_path is None:
        raise ValueError("Either `keras_model` or `keras_model_path` needs to be provided.")
    if keras_model is not None and keras_model_path is not None:
        raise ValueError("Give either `keras_model` or `keras_model_path`, but not both.")
    if checkpoint_format not in ("checkpoint", "saver"):
        raise ValueError(f'Checkpoint format must be one of "checkpoint" or "saver". Got {checkpoint_format}')
    if keras_model_path is not None:
        keras_model, has_lambda = load_model(keras_model_path, custom_objects, safe_mode)
        if has_lambda and safe_mode:
            raise ValueError(
                f"{os.fspath(keras_model_path)} holds a lambda, Python code that would run; pass safe_mode=False if "
                "you trust the file as you trust a program."
            )
    seed = config.tf_random_seed if isinstance(config, RunConfig) else None
    source = model_source(keras_model, custom_objects, seed)
    if warm_start_from is not None:
        with eager_mode():
            source.take_weights(_checkpoint(os.fspath(warm_start_from)))
    return Estimator(KerasModel(source, metric_names_map, export_outputs), model_dir, config)


def _checkpoint(path):
    if not tf.io.gfile.isdir(path) or tf.io.gfile.exists(f"{path}.index"):
        return path
    newest = checkpoints.latest_intact(path)
    if newest is None:
        raise ValueError(f"warm_start_from={path!r} has no checkpoint; give the directory or the prefix of one.")
    return newest
