"""Versions that were tried, and lines about others."""

import re
import sys
from pathlib import Path

import pytest
import tensorflow as tf
import tf_keras

from estimator_train._engine import libraries

SETUP = Path(__file__).parents[2] / "setup.py"


@pytest.mark.parametrize("package", ["tensorflow", "tf_keras"])
def test_setup_allows_the_versions_that_were_tried(package):
    if not SETUP.exists():
        pytest.skip("needs the sources")
    name = package.replace("_", "-")
    (allowed,) = re.findall(rf'^    "{name}(>=.+?)",', SETUP.read_text(), re.MULTILINE)
    assert allowed == libraries.LIBRARIES[package].requirement


def test_a_keras_newer_than_those_tried_is_a_line(monkeypatch):
    keras = pytest.importorskip("keras")
    for version in ("3.12.0", "3.15.1"):
        monkeypatch.setattr(keras, "__version__", version)
        assert libraries.newer_than_tried("keras") is None
    for version in ("3.16.0.dev2026102704", "3.100.0", "4.0"):
        monkeypatch.setattr(keras, "__version__", version)
        line = libraries.newer_than_tried("keras")
        assert line.startswith(f"Keras {version} is newer than 3.15") and "pip install 'keras>=3.12,<3.16'" in line


@pytest.mark.parametrize(
    ("tensorflow", "keras", "line"),
    [
        ("2.21.0", "2.21.0", None),
        ("2.20.0", "2.20.1", None),
        ("2.20.0", "2.21.0", "TensorFlow 2.20.0 was not tried with tf_keras 2.21.0; pip install 'tf-keras==2.20.*'"),
        ("2.23.0-dev20261026", "2.23.0", "TensorFlow 2.23.0-dev20261026 is newer than 2.21, the newest that was tried"),
    ],
)
def test_pairs_that_were_not_tried_are_a_line(tensorflow, keras, line, monkeypatch):
    monkeypatch.setattr(tf, "__version__", tensorflow)
    monkeypatch.setattr(tf_keras, "__version__", keras)
    monkeypatch.setitem(sys.modules, "tensorflow", tf)
    found = libraries.untried_pair()
    assert found == line or found.startswith(line)


def test_an_error_of_a_user_below_a_private_function_passes():
    def of_the_user():
        raise AttributeError("mine")

    called = {}
    source = "def private(function):\n    return function()\n"
    exec(compile(source, "private_keras3.py", "exec"), called)
    with pytest.raises(AttributeError, match="^mine$"):
        libraries.private_names_of("keras")(called["private"])(of_the_user)
