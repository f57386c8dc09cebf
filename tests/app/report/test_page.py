"""The report shows what a run has, names what it lacks, and is self-contained."""

import base64
import dataclasses
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from pages import Page
from PIL import Image

import estimator_train as et
from estimator_train.app.metrics import classification
from estimator_train.app.report import plots
from estimator_train.app.report.page import Mistake, write_report
from estimator_train.app.report.scaling import scaling

v1 = tf.compat.v1
CLASS_NAMES = ("<b>CNV</b>", "NORMAL")
TRAINING = {1: 2.0, 101: 0.5, 201: 0.25}
RUN = {
    "command": "estimator_train --dataset oct2017 --model-dir run",
    "settings": {"dataset": "oct2017", "input_fn": None, "model": "small_cnn", "image_size": [24, 32], "seed": None},
}


@pytest.fixture
def run_dir(tmp_path):
    """The directory of a run with every possible file."""
    write_run(tmp_path)
    return tmp_path


def write_run(folder):
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(str(folder))
    for step, value in TRAINING.items():
        rates = {"examples/sec": 100 * value, "input_wait_share": 0.1, "global_step/sec": 3.0, "learning_rate": 0.01}
        for tag, scalar in ({"loss": value, "accuracy": 1 - value / 2} | rates).items():
            writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag=tag, simple_value=scalar)]), step)
    writer.close()
    labels, probabilities = np.array([0, 0, 1, 1]), np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.3, 0.7]])
    result = dataclasses.asdict(classification.result(CLASS_NAMES, labels, probabilities))
    evaluations = [
        {"checkpoint": "model.ckpt-100", "step": 100, "metrics": {"loss": None, "recalls": [1.0, None]}},
        {"checkpoint": "model.ckpt-201", "step": 201, "metrics": {"loss": 0.6125, "recalls": [1.0, 0.5]}}
        | {"classification": result},
    ]
    (folder / "evaluations.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in evaluations))
    timing = {"steps_per_second": 2.5, "examples_per_second": 80.0, "input_wait_share": 0.25}
    session = {"started": "2026-01-01T00:00:00+00:00", "first_step": 0, "last_step": 201, "input_wait_seconds": 20.0}
    session |= {"seconds": 80.5, "warmup_seconds": 1.0, "whole_seconds": 143.5, "other_seconds": 2.0}
    timing["sessions"] = [
        session | {"checkpoint_seconds": 10.25, "evaluation_seconds": 49.75, "features_seconds": 19.5}
    ]
    (folder / "timing.json").write_text(json.dumps(timing))
    (folder / "run.json").write_text(json.dumps(RUN))


def test_how_the_model_was_trained_is_shown_given_or_not(run_dir, blank_plots):
    training = {"learning_rate": None, "schedule": None}
    run = RUN | {"settings": RUN["settings"] | {"optimizer": None}, "training": training, "trained_weights": 122}
    (run_dir / "run.json").write_text(json.dumps(run))
    page = Path(write_report(run_dir)).read_text()
    shown = {"optimizer": "adam", "learning rate": "0.002", "schedule": "constant", "trained weights": "122"}
    for name, value in shown.items():
        assert f'<th scope="row">{name}</th><td>{value}</td>' in page


@pytest.fixture(scope="module")
def mistakes():
    image = Image.new("L", (900, 600), 90)
    return [Mistake(image, "CNV/<1>.jpeg", CLASS_NAMES[0], 0.2, "NORMAL", 0.8)]


@pytest.fixture(scope="module")
def report(mistakes, tmp_path_factory):
    """The path of the whole report of such a run."""
    folder = tmp_path_factory.mktemp("run")
    write_run(folder)
    path = write_report(folder, mistakes)
    assert path == str(folder / "report" / "report.html")
    return Path(path)


def colors(png):
    """Returns the colors of more than ten pixels in a PNG file, as #rrggbb."""
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), int) @ [256 * 256, 256, 1]
    values, counts = np.unique(pixels, return_counts=True)
    return {f"#{value:06x}" for value in values[counts > 10]}


def test_what_the_run_has_is_shown(report, mistakes):
    page = Page(report)
    for text in ("75.0 %", "0.6125", "model.ckpt-201", "80", "25 %", "24×32", "small_cnn", "NORMAL 0.800"):
        assert text in page.text
    assert "0 to 201" in page.text and "49.8" in page.text  # of the session
    assert "Frozen layers" in page.text and "19.5" in page.text
    written = sorted(file.name for file in report.parent.iterdir())
    plotted = [
        "accuracy.png",
        "confusion_matrix.png",
        "learning_rate.png",
        "loss.png",
        "reliability.png",
        "throughput.png",
    ]
    assert written == sorted([*plotted, "report.html"])
    assert all((report.parent / name).read_bytes().startswith(b"\x89PNG") for name in plotted)
    assert len(page.images()) == len(plotted) + len(mistakes)
    assert "There are no" not in page.text and "not been evaluated" not in page.text


def test_nothing_is_loaded_from_outside_and_every_image_has_a_text(report):
    page = Page(report)
    places = [attributes[name] for _, attributes in page.tags for name in ("src", "href") if name in attributes]
    assert len(places) > 5
    assert all(place.startswith("data:") for place in places)
    assert all(attributes["alt"] for attributes in page.images())
    assert "training ends at 0.25, evaluation ends at 0.6125" in page.images()[0]["alt"]
    assert not {"script", "iframe", "object"} & {tag for tag, _ in page.tags}


def test_names_are_text_and_never_markup(report):
    page = Page(report)
    assert "<b>CNV</b>" in page.text and "CNV/<1>.jpeg" in page.text
    assert "b" not in {tag for tag, _ in page.tags}


def test_what_speaks_for_a_mistake_is_shown_below_it(run_dir, mistakes, blank_plots):
    heat = np.array([[0.0, 1.0]])
    page = Page(write_report(run_dir, [mistakes[0]._replace(heat=heat)], note="Grad-CAM is below."))
    *_, plain, warm = page.images()
    assert "Grad-CAM is below." in page.text and "evidence for NORMAL, by Grad-CAM" in warm["alt"]
    left, right = (
        np.asarray(Image.open(io.BytesIO(base64.b64decode(warm["src"].partition(",")[2]))))[100, column].astype(int)
        for column in (2, -3)
    )
    assert left[2] > left[0] and right[0] > right[2]  # blue, red


def test_what_bench_measured_in_the_folder_of_the_run_is_shown(run_dir, mistakes, warnings, blank_plots):
    timings = {
        count: {"examples_per_second": rate, "mean_seconds": 8 * count / rate, "input_wait_share": 0.0}
        for count, rate in ((1, 40.0), (2, 60.0))
    }
    (run_dir / "bench").mkdir()
    (run_dir / "bench" / "scaling.json").write_text(json.dumps({"scaling": scaling(timings, 800)}))
    page = Page(write_report(run_dir, mistakes))
    assert all(text in page.text for text in ("Scaling", "60.0", "13.3", "1.50", "75 %"))
    assert any("1.50 times as fast on 2" in image["alt"] for image in page.images())
    (run_dir / "bench" / "scaling.json").write_text('{"scaling": [{"replicas": 1}]}')
    assert "Scaling" not in Page(write_report(run_dir, mistakes)).text
    (warning,) = warnings
    assert "bench/scaling.json is skipped" in warning


def test_a_thumbnail_is_small(report, mistakes):
    *_, thumbnail = Page(report).images()
    assert len(thumbnail["src"]) < 20_000
    assert mistakes[0].image.size == (900, 600)


@pytest.mark.parametrize(
    ("mistakes", "sentence"), [(None, "There are no images of examples to show."), ([], "Every example was predicted")]
)
def test_a_run_that_has_only_begun_says_what_it_lacks(mistakes, sentence, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    page = Page(write_report(tmp_path, mistakes))
    for text in ("has not been evaluated", "too short", "no metrics per class", "neither", sentence, "small_cnn"):
        assert text in page.text
    assert not page.images()


def test_a_report_that_cannot_be_written_leaves_the_earlier_one(run_dir, monkeypatch, blank_plots):
    path = Path(write_report(run_dir))
    before = path.read_bytes()

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_report(run_dir)
    assert path.read_bytes() == before


def test_plots_show_both_sides_in_the_colours_of_the_page():
    both = {plots.PAPER, plots.TRAINING, plots.EVALUATION}
    assert both <= colors(plots.curves("loss", TRAINING, {100: 0.5}))
    assert plots.EVALUATION not in colors(plots.curves("loss", TRAINING, {}))
    assert both <= colors(plots.throughput(TRAINING, TRAINING))


def test_the_shade_of_a_cell_is_its_share_of_the_true_class():
    assert plots.TRAINING in colors(plots.confusion_matrix(["a", "b"], [[3, 0], [1, 1]]))
    assert plots.TRAINING not in colors(plots.confusion_matrix(["a", "b"], [[3, 1], [1, 1]]))


@pytest.mark.parametrize("classes", [pytest.param(15, marks=pytest.mark.slow), 60])
def test_a_confusion_matrix_of_many_classes_is_as_wide_as_one_of_few(classes):
    names = [f"a rather long name {index}" for index in range(classes)]
    image = Image.open(io.BytesIO(plots.confusion_matrix(names, np.eye(classes, dtype=int))))
    assert image.width < 1200 and image.height < 1200


def test_samples_are_drawn():
    png = plots.samples([Image.new("RGB", (30, 20), "#12ab34")] * 5, ["NORMAL 0.9"] * 5)
    assert "#12ab34" in colors(png)


@pytest.mark.slow
def test_a_run_trained_in_python_is_shown_from_its_events(classifier, data, batches, tmp_path, blank_plots):
    config = et.RunConfig(tmp_path / "run", save_summary_steps=1)
    estimator = et.model_to_estimator(classifier(), config=config)
    estimator.train(batches(data, 16), steps=3).evaluate(batches(data, 32))
    path = write_report(estimator.model_dir)
    page = Page(path)
    assert "model.ckpt-3" in page.text
    assert any("accuracy over the global steps: training ends at" in image["alt"] for image in page.images())
    shown = path._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert "model.ckpt-3" in shown


def test_the_title_has_the_data_the_model_and_the_result(run_dir, blank_plots):
    assert "<title>oct2017, small_cnn: 75.0 % accuracy</title>" in Path(write_report(run_dir)).read_text()
    settings = RUN["settings"] | {"dataset": "images", "data_dir": "/scans/pets"}
    (run_dir / "run.json").write_text(json.dumps({"settings": settings}))
    (run_dir / "evaluations.jsonl").unlink()
    assert "<title>pets, small_cnn</title>" in Path(write_report(run_dir)).read_text()


def test_a_training_batch_and_the_best_checkpoint_are_shown(run_dir, blank_plots):
    best = run_dir / "export" / "best_checkpoint"
    best.mkdir(parents=True)
    (best / "model.ckpt-201.index").touch()
    (run_dir / "run.json").write_text(json.dumps(RUN | {"training": {"augment": "light"}}))
    page = Page(write_report(run_dir, batch=[(Image.new("RGB", (8, 8)), name) for name in CLASS_NAMES]))
    alts = [image["alt"] for image in page.images()]
    assert alts[-2:] == ["Training image 1: <b>CNV</b>", "Training image 2: NORMAL"]
    assert [alt for alt in alts if alt.endswith("The best checkpoint is at 201.")] == [alts[0]]
    assert "by --augment light, with their labels" in page.text
