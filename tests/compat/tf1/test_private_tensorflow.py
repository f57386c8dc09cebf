"""Modules below tensorflow.python that TensorFlow 1 filled otherwise; docstrings say what breaks without them."""

import importlib

import pytest
import tensorflow as tf

from estimator_train.compat.tf1 import private_tensorflow


def test_datasets_have_the_iterators_of_tensorflow_1(monkeypatch):
    """Google's Machine Learning Crash Course imports Dataset from tensorflow.python.data."""
    from tensorflow.python import data

    for name in dir(data):
        monkeypatch.setattr(data, name, getattr(data, name))  # restores them
    private_tensorflow.use_data_of_tf1()
    for name in ("Dataset", "FixedLengthRecordDataset", "Iterator", "TFRecordDataset", "TextLineDataset"):
        assert getattr(data, name) is getattr(tf.compat.v1.data, name)


@pytest.mark.parametrize(
    ("statement", "public"),
    [
        ("from tensorflow.python.keras import models; found = models.Sequential", "Sequential"),
        ("from tensorflow.python.keras.layers import Dense as found", "layers.Dense"),
        ("from tensorflow.python.keras.layers.core import Dense as found", "layers.Dense"),
        ("from tensorflow.python.keras._impl.keras.layers import Dense as found", "layers.Dense"),
        ("import tensorflow.python.keras.backend as K; found = K.clear_session", "backend.clear_session"),
        ("from tensorflow.python import keras; found = keras.optimizers.Adam", "optimizers.Adam"),
        ("from tensorflow.python.keras.applications.vgg16 import VGG16 as found", "applications.VGG16"),
    ],
)
def test_keras_is_tf_keras(modules, statement, public):
    """Models of TensorFlow's own copy of Keras could not become Estimators."""
    private_tensorflow.use_tf_keras()
    scope = {}
    exec(statement, scope)
    module, _, name = public.rpartition(".")
    assert scope["found"] is getattr(importlib.import_module(f"tf_keras.{module}".rstrip(".")), name)


def test_what_tf_keras_lacks_is_tensorflows_own(modules):
    """TensorFlow's cells of RNNs, among others, import these modules when they are first used."""
    private_tensorflow.use_tf_keras()
    from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl

    assert rnn_cell_impl.LSTMCell.__module__ == "tensorflow.python.keras.layers.legacy_rnn.rnn_cell_impl"
    with pytest.raises(ModuleNotFoundError, match="tensorflow.python.keras.engine.topology"):
        importlib.import_module("tensorflow.python.keras.engine.topology")


def test_modules_of_keras_have_two_sources_and_others_none():
    sources = private_tensorflow.sources_of("tensorflow.python.keras._impl.keras.layers")
    assert sources == ["tf_keras.src.layers", "tensorflow.keras.layers"]
    assert private_tensorflow.sources_of("tensorflow.python.keras_tensor") == []
