"""In a notebook, log lines about sessions are dropped and objects are tables; elsewhere nothing changes."""

import logging
import os
import sys

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train._engine.host import notebook


@pytest.fixture
def log_of_a_notebook(log_lines):
    """The messages that TensorFlow's logger shows in a notebook, at level INFO."""
    logger = tf.get_logger()
    filters = list(logger.filters)
    notebook.shorten_outputs()
    yield log_lines
    logger.filters[:] = filters


def test_a_script_is_no_kernel(monkeypatch):
    assert not notebook.is_kernel()
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", None)
    assert notebook.is_kernel()


def test_a_short_training_logs_its_losses_and_nothing_else(log_of_a_notebook, classifier, data, batches, tmp_path):
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=tmp_path / "run")
    estimator.train(batches(data, 16), steps=3)
    assert [line.split(" = ")[0].split(":")[0] for line in log_of_a_notebook] == ["loss", "Loss for final step"]


def test_lines_of_the_user_and_warnings_are_shown(log_of_a_notebook):
    tf.get_logger().info("mine")
    tf.get_logger().warning("Restoring parameters from nowhere")
    tf.get_logger().warning("From %s/saver.py:1: old is deprecated", os.path.dirname(tf.__file__))
    assert log_of_a_notebook == ["mine", "Restoring parameters from nowhere"]


def test_level_debug_shows_all_lines(log_of_a_notebook):
    tf.get_logger().setLevel(logging.DEBUG)
    tf.get_logger().info("Graph was finalized.")
    assert log_of_a_notebook == ["Graph was finalized."]


def test_an_estimator_shows_its_directory_and_newest_checkpoint(classifier, data, batches, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir="<run>")
    assert repr(estimator) == "Estimator(model_dir='<run>')"
    assert "<td>none</td>" in estimator._repr_html_()
    estimator.train(batches(data, 16), steps=3)
    page = estimator._repr_html_()
    assert "<td>model.ckpt-3</td>" in page
    assert "&lt;run&gt;" in page and "<run>" not in page
