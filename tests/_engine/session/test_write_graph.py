"""TensorFlow 2.20 writes graphs as text with protobuf 7, and no other TensorFlow is touched."""

import inspect
import sys

import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_train._engine.session import write_graph


@pytest.fixture
def graph_io(monkeypatch):
    """The module of tf.io.write_graph, restored after the test."""
    module = sys.modules[tf.io.write_graph.__module__]
    monkeypatch.setattr(module, "text_format", text_format)
    return module


@pytest.mark.parametrize("version", ["2.16.2", "2.19.1", "2.21.0"])
def test_other_versions_keep_their_own_text_format(version, graph_io, monkeypatch):
    monkeypatch.setattr(tf, "__version__", version)
    write_graph.work_with_protobuf_7()
    assert graph_io.text_format is text_format


@pytest.mark.skipif(
    "float_format" in inspect.signature(text_format.MessageToString).parameters, reason="this protobuf takes it"
)
def test_the_argument_that_tensorflow_2_20_passes_is_left_out(graph_io, monkeypatch):
    monkeypatch.setattr(tf, "__version__", "2.20.0")
    write_graph.work_with_protobuf_7()
    graph_def = tf.Graph().as_graph_def()
    text = graph_io.text_format.MessageToString(graph_def, float_format="")
    assert text == text_format.MessageToString(graph_def)
