"""Keras comes in two generations: tf_keras, which is Keras 2, and Keras 3. A module has what differs in each.

`tf_keras_adapter` and `keras3_adapter` have functions of the same names, which take a model of their generation. All
other modules call these. Keras 3 takes a second to import, so its adapter is imported only when such a model comes.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile

import h5py
import tf_keras

from estimator_train.keras import tf_keras_adapter
from estimator_train.keras.cloning import ModelSource
from estimator_train.session.private_names import eager_classes, eager_mode


def adapter_of(model):
    """The adapter of a Keras model.

    Raises:
      ValueError: it is no Keras model, or one of Keras 3 with another backend than TensorFlow.
    """
    if isinstance(model, tf_keras.Model):
        return tf_keras_adapter
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(model, keras.Model):
        raise ValueError(f"keras_model must be a compiled Keras model, given: {model!r}")
    return _keras3_adapter()


def imported_kerases():
    """The modules `tf_keras` and, once it is imported, `keras`."""
    return [tf_keras, *([sys.modules["keras"]] if "keras" in sys.modules else [])]


def model_source(model, custom_objects=None, seed=None):
    """The `ModelSource` of a compiled Keras model, or of a function that returns one.

    `seed`: see there.

    Raises:
      ValueError: as `adapter_of` and `ModelSource`.
    """
    with eager_classes(), eager_mode():
        if isinstance(model, tuple(keras.Model for keras in imported_kerases())) or not callable(model):
            given, build = model, None
        else:
            given, build = model(), model
        return ModelSource(adapter_of(given), given, build, custom_objects, seed=seed)


def load_model(path, custom_objects, safe_mode):
    """Returns the saved model at `path`, and whether it holds a lambda; None for the model if that is refused."""
    path = os.fspath(path)
    adapter = _keras3_adapter() if _saved_by(path).startswith("3.") else tf_keras_adapter
    with eager_classes(), eager_mode():
        return adapter.load_model(path, custom_objects, safe_mode)


def _keras3_adapter():
    import keras

    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"Keras 3 runs on {keras.backend.backend()} here, and an Estimator trains with TensorFlow; set the "
            "environment variable KERAS_BACKEND=tensorflow before keras is imported."
        )
    from estimator_train.keras import keras3_adapter

    return keras3_adapter


def _saved_by(path):
    """The version of the Keras that saved the model at `path`; "" where the file does not tell."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if "metadata.json" in archive.namelist():
                return json.loads(archive.read("metadata.json")).get("keras_version", "")
    elif os.path.isfile(path) and h5py.is_hdf5(path):
        with h5py.File(path) as file:
            if "model_config" not in file.attrs:
                raise ValueError(
                    f"{path} holds the weights of a model, and not the model; build the model, call its "
                    "load_weights(), and give it as keras_model."
                )
            return _text(file.attrs.get("keras_version", ""))
    return ""


def _text(attribute):
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)
