"""Models are built from the settings of a run."""

import dataclasses
import io
import sys

import pytest
import tensorflow as tf

from estimator_train.app.errors import SettingError
from estimator_train.app.running.build import build_model, set_verbosity
from estimator_train.app.runs.spec import Training


def test_a_resumed_training_reads_no_initial_weights(settings, tmp_path):
    gone = dataclasses.replace(settings, weights=str(tmp_path / "gone.h5"))
    with pytest.raises(SettingError, match="there is no weights file"):
        build_model(gone, Training(max_steps=1), 1)
    assert build_model(gone, Training(max_steps=1), 1, resumes=True).built


FREEZING = """
import tf_keras as keras

def build(image_size, weights):
    layers = [keras.layers.Flatten(), keras.layers.Dense(2, "softmax", trainable=weights == "none")]
    model = keras.Sequential([keras.Input((*image_size, 3)), *layers])
    model.compile("sgd", "categorical_crossentropy")
    return model
"""


def test_a_function_freezes_the_same_layers_in_a_resumed_training(settings, tmp_path):
    (tmp_path / "freezing.py").write_text(FREEZING)
    own = dataclasses.replace(settings, model=f"{tmp_path}/freezing.py:build", weights="imagenet")
    for resumes in (False, True):
        assert not build_model(own, Training(max_steps=1), 1, resumes=resumes).trainable_weights


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_once_that_the_model_is_built(own_flags, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    own = dataclasses.replace(settings, model=f"{tmp_path}/own.py:build")
    level = tf.get_logger().level
    set_verbosity("quiet")
    build_model(own)
    tf.get_logger().setLevel(level)
    assert terminal.getvalue() == ""
    build_model(own)
    build_model(own)
    assert terminal.getvalue() == f"building {tmp_path}/own.py:build\n"


OWN_DEFAULTS = """
import tf_keras as keras

def build(num_classes, image_size, weights, dropout=0.5):
    assert weights is None
    model = keras.Sequential([keras.Input((*image_size, 3)), keras.layers.Dropout(dropout)])
    model.compile("sgd", "mse")
    return model

def forgets(): ...
"""


def test_a_function_keeps_its_defaults_without_the_flags(settings, tmp_path):
    (tmp_path / "defaults.py").write_text(OWN_DEFAULTS)
    own = dataclasses.replace(settings, model=f"{tmp_path}/defaults.py:build")
    for flag, rate in ((None, 0.5), (0.0, 0.0), (0.25, 0.25)):
        model = build_model(dataclasses.replace(own, dropout=flag), Training(max_steps=1), 1)
        assert model.layers[-1].rate == rate
    with pytest.raises(SettingError, match="defaults.py:forgets returns None; let it return the model"):
        build_model(dataclasses.replace(own, model=f"{tmp_path}/defaults.py:forgets"))
