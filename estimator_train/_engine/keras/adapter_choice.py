"""Decides which adapter serves a model: that of tf_keras, which is Keras 2, or that of Keras 3."""

import functools
import json
import os
import sys
import zipfile
from types import ModuleType
from typing import Any

import h5py
import tensorflow as tf
import tf_keras

from estimator_train._engine import libraries
from estimator_train._engine.keras.adapter import Adapter
from estimator_train._engine.keras.protocols import CustomObjects, Model
from estimator_train._engine.keras.source import ModelSource
from estimator_train._engine.keras.tf_keras.adapter import TfKerasAdapter
from estimator_train._engine.keras.tf_keras.private_tf_keras import eager_classes
from estimator_train._engine.keras_forms import is_model, is_path
from estimator_train._engine.session.private_tensorflow import eager_mode

_TF_KERAS = TfKerasAdapter()

log = tf.get_logger()


def adapter_of(model: object) -> Adapter:
    """Returns the adapter; raises ValueError if this is not a Keras model, or its Keras 3 is not on TensorFlow."""
    if isinstance(model, tf_keras.Model):
        return _TF_KERAS
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(model, keras.Model):
        other = ", a model of another Keras; import its Keras as tf.keras" if is_model(model) else ""
        if is_path(model):
            other = "; pass the path of a saved model as keras_model_path"
        raise ValueError(f"keras_model must be a compiled Keras model, given: {model!r}{other}")
    return _keras3_adapter()


def imported_kerases() -> list[ModuleType]:
    """Returns the module `tf_keras` and, if it has been imported, `keras`."""
    return [keras for keras in (tf_keras, sys.modules.get("keras")) if keras is not None]


def model_source(model: Any, custom_objects: CustomObjects | None = None, seed: int | None = None) -> ModelSource:
    """Returns the `ModelSource` for a compiled Keras model or for a function that returns one; see `adapter_of`."""
    with eager_classes(), eager_mode():
        given, build = model, None
        if callable(model) and not is_model(model):
            given, build = model(), model
        return ModelSource(adapter_of(given), given, build, custom_objects, seed=seed)


def load_model(
    path: str | os.PathLike[str], custom_objects: CustomObjects | None, safe_mode: bool
) -> tuple[Model | None, bool]:
    """Returns the saved model at `path` and whether it has a lambda; the model is None if `safe_mode` forbids it."""
    path = os.fspath(path)
    adapter = _keras3_adapter() if _saved_by(path).startswith("3.") else _TF_KERAS
    with eager_classes(), eager_mode():
        return adapter.load_model(path, custom_objects, safe_mode)


def _keras3_adapter() -> Adapter:
    import keras  # takes a second

    say_if_keras_is_new()

    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"Keras 3 uses the backend {keras.backend.backend()}, but an Estimator needs TensorFlow; set the "
            "environment variable KERAS_BACKEND=tensorflow before importing keras."
        )
    from estimator_train._engine.keras.keras3.adapter import ADAPTER

    return ADAPTER


@functools.cache
def say_if_keras_is_new() -> None:
    if line := libraries.newer_than_tried("keras"):
        log.warning(line)


def _saved_by(path: str) -> str:
    """Returns the version of Keras that saved the model at `path`, or "" if the file does not record it."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if "metadata.json" in archive.namelist():
                return json.loads(archive.read("metadata.json")).get("keras_version", "")
    elif os.path.isfile(path) and h5py.is_hdf5(path):
        with h5py.File(path) as file:
            if "model_config" not in file.attrs:
                raise ValueError(
                    f"{path} contains only the weights of a model; build the model, call its load_weights(), and pass "
                    "it as keras_model."
                )
            return tf.compat.as_str_any(file.attrs.get("keras_version", ""))
    return ""
