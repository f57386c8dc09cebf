"""The images of a report: what a model got wrong, and a batch that it has trained on."""

import base64
import dataclasses
import io
import re
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_train.app import datasets
from estimator_train.app.metrics import tasks
from estimator_train.app.report import plots
from estimator_train.app.running import reporting
from estimator_train.app.running.evaluation import Evaluated
from estimator_train.app.running.reporting import Reporter
from estimator_train.app.runs import run_file


@pytest.fixture
def data(settings):
    return datasets.open_dataset("images", settings.data_dir)


@pytest.fixture
def reporter(settings, trained, tmp_path, blank_plots):
    run_file.save(tmp_path, dataclasses.asdict(settings))
    return Reporter(settings, str(tmp_path))


def captions(page):
    return re.findall(r'<span class="wrong">(.+?)</span>\s*<span>is (.+?)</span>\s*<span class="file">(.+?)<', page)


def test_the_most_confidently_wrong_come_first(reporter, data):
    paths = sorted(data.eval.paths)  # two bright ones, two dark ones
    probabilities = np.array([[0.4, 0.6], [0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    metrics = {"loss": 1.0, "global_step": 3}
    reporter.add("model.ckpt-3", Evaluated(metrics, np.array([0, 0, 1, 1]), probabilities), data)
    page = Path(reporter.write()).read_text()
    names = ["/".join(Path(path).parts[-2:]) for path in paths]
    assert captions(page) == [
        ("bright 0.800", "dark, 0.200", names[2]),
        ("dark 0.600", "bright, 0.400", names[0]),
    ]
    dark, bright = (
        np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))).mean()
        for content in re.findall(r"data:image/jpeg;base64,([^\"]+)", page)[:2]  # before those of a training batch
    )
    assert dark < 100 < bright


def test_the_report_of_a_run_shows_a_batch_as_augmentation_changes_it(reporter, settings, data, tmp_path):
    run_file.save(tmp_path, dataclasses.asdict(settings), training={"augment": "flip, brightness"})
    labels, outputs = np.array([0, 0, 1, 1]), np.eye(2, dtype="float32")[[0, 0, 1, 1]]
    result = tasks.named(settings.task).result(settings.class_names, labels, outputs)
    reporter.add("model.ckpt-3", Evaluated({"loss": 1.0, "global_step": 3}, labels, outputs, result), data)
    page = Path(reporter.write()).read_text()
    assert set(re.findall(r'alt="Training image \d+: (\w+)"', page)) == {"bright", "dark"}
    assert "--augment flip, brightness" in page


def test_images_are_drawn_as_training_reads_them(settings, data, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("Pillow cannot read it")

    paths = sorted(data.eval.paths)
    with monkeypatch.context() as patch:
        patch.setattr(reporting.Image, "open", refuse)
        images = reporting._images(settings, data, np.array([2, 0]))
    for index, image in images.items():
        expected = tf.io.decode_image(tf.io.read_file(paths[index]), channels=3)
        np.testing.assert_array_equal(np.asarray(image), expected)


def test_examples_that_are_no_files_are_shown_as_the_model_sees_them(settings, tmp_path, blank_plots):
    levels = np.array([0.1, 0.3, 0.5, 0.7, 0.9], "float32")
    images = np.ones((5, 24, 32, 3), "float32") * levels[:, None, None, None]
    batches = tf.data.Dataset.from_tensor_slices((images, np.eye(2, dtype="float32")[[0, 0, 1, 1, 1]])).batch(2)
    data = types.SimpleNamespace(
        train=types.SimpleNamespace(labels=None, input_fn=lambda *_, **__: lambda: batches),
        eval_input_fn=lambda **_: lambda: batches,
        image_paths=lambda: None,
    )
    run_file.save(tmp_path, dataclasses.asdict(settings))
    reporter = Reporter(settings, str(tmp_path))
    probabilities = np.array([[1, 0], [1, 0], [0, 1], [0.9, 0.1], [0.7, 0.3]])
    reporter.add("model.ckpt-3", Evaluated({"global_step": 3}, np.array([0, 0, 1, 1, 1]), probabilities), data)
    page = Path(reporter.write()).read_text()
    assert [name for *_, name in captions(page)] == ["example 3", "example 4"]
    shown = [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))).mean()
        for content in re.findall(r"data:image/jpeg;base64,([^\"]+)", page)
    ]
    assert shown == pytest.approx([255 * level for level in (0.7, 0.9, 0.1, 0.3)], abs=2)  # and a training batch


def test_images_are_in_the_events(tmp_path):
    png = plots.samples([Image.new("L", (30, 20))], ["one"])
    reporting.write_image_events(str(tmp_path), 7, {"samples": png})
    (file,) = tmp_path.iterdir()
    events = tf.compat.v1.train.summary_iterator(str(file))
    ((step, value),) = [(event.step, value) for event in events for value in event.summary.value]
    assert (step, value.tag, value.image.encoded_image_string) == (7, "samples", png)
    assert (value.image.width, value.image.height) == Image.open(io.BytesIO(png)).size
