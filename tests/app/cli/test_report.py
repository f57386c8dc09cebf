"""estimator_train report: the newest checkpoint, its mistakes, and the page in a browser."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_train.app import datasets
from estimator_train.app.running.example_images import images_of
from estimator_train.app.runs import run_file

v1 = tf.compat.v1
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def report(trained, run_command, tmp_path_factory):
    """Path of the report that the command has written of a copy of the run."""
    folder = tmp_path_factory.mktemp("report") / "run"
    shutil.copytree(trained.model_dir, folder)
    path = folder / "report" / "report.html"
    assert run_command("report", "--model-dir", folder) == f"the report is {path}\n"
    return path


def images_of_events(folder):
    return [
        (event.step, value.tag)
        for path in Path(folder).glob("events.*")
        for event in v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.HasField("image")
    ]


@pytest.mark.slow
def test_the_newest_checkpoint_is_evaluated_and_shown(report):
    entry = json.loads((report.parents[1] / "evaluations.jsonl").read_text().splitlines()[-1])
    assert entry["checkpoint"] == "model.ckpt-12"
    page = report.read_text()
    for text in ("model.ckpt-12", f"{entry['metrics']['loss']:.4f}", f"{entry['classification']['macro_f1']:.4f}"):
        assert text in page
    assert {"loss.png", "accuracy.png", "confusion_matrix.png"} <= {file.name for file in report.parent.iterdir()}


@pytest.mark.slow
def test_tensorboard_gets_the_confusion_matrix_and_samples(report):
    assert images_of_events(report.parents[1] / "eval_afterwards") == [(12, "confusion_matrix"), (12, "samples")]


def test_images_that_cannot_be_read_are_left_out_of_a_comparison(settings, tmp_path):
    copied = shutil.copytree(settings.data_dir, tmp_path / "copied")
    data = datasets.open_dataset("images", copied)
    damaged, gone, whole, *_ = map(Path, sorted(data.eval.paths))
    read = images_of(dataclasses.replace(settings, data_dir=str(copied)))
    damaged.write_bytes(b"no image")
    gone.unlink()
    names = [os.path.join(path.parent.name, path.name) for path in (damaged, gone, whole)]
    assert [image and image.mode for image in map(read, names)] == [None, None, "RGB"]
    assert read("unknown") is None


@pytest.mark.slow
def test_a_run_without_classes_has_a_report_without_them(command, own_flags, tmp_path):
    assert command(*own_flags, "--model-dir", tmp_path / "run", "--max-steps", "3")[0] == 0
    code, output, _ = command("report", "--model-dir", tmp_path / "run")
    assert (code, output) == (0, f"the report is {tmp_path}/run/report/report.html\n")
    page = (tmp_path / "run" / "report" / "report.html").read_text()
    assert "no metrics per class" in page and "There are no images" in page
    assert not images_of_events(tmp_path / "run" / "eval")


@pytest.mark.parametrize("lacking", ["a folder", "a run", "a checkpoint"])
def test_without_a_trained_run_the_line_says_so(lacking, command, settings, tmp_path):
    if lacking != "a folder":
        (tmp_path / "run").mkdir()
    if lacking == "a checkpoint":
        run_file.save(tmp_path / "run", dataclasses.asdict(settings))
    code, _, errors = command("report", "--model-dir", "run")
    message = {"a folder": "there is no such folder", "a run": "holds no run", "a checkpoint": "has no checkpoint"}
    assert code == 2
    assert re.match("estimator_train: (--model-dir )?run", errors) and message[lacking] in errors.splitlines()[-1]


def look_at(page, tmp_path):
    """Opens a file in headless Chromium: (URLs that it asks for, what the console says, the screenshot)."""
    log, screenshot = tmp_path / "net.json", tmp_path / "screenshot.png"
    flags = [
        "--headless",
        "--no-sandbox",  # root, as in a container, cannot have one
        "--disable-gpu",
        "--disable-dev-shm-usage",  # which is small in a container
        "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing goes out
        f"--user-data-dir={tmp_path}/profile",
        "--window-size=390,3000",
        f"--screenshot={screenshot}",
        f"--log-net-log={log}",
        "--enable-logging=stderr",
    ]
    done = subprocess.run([CHROMIUM, *flags, page.as_uri()], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    logged = json.loads(log.read_text())
    start = logged["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    asked = [
        event["params"] for event in logged["events"] if event["type"] == start and "url" in event.get("params", {})
    ]
    # Chromium's own requests, such as updates, have no origin.
    urls = [request["url"] for request in asked if request.get("initiator") != "not an origin"]
    return urls, re.findall(r":CONSOLE.*", done.stderr), screenshot


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to look at the report with")
def test_a_browser_shows_the_report_without_a_request_or_an_error(report, tmp_path):
    urls, said, screenshot = look_at(report, tmp_path)
    assert (urls, said) == ([], [])
    pixels = np.asarray(Image.open(screenshot).convert("L"), float)
    assert pixels.shape[1] >= 390
    assert (pixels.std(axis=1) > 5).sum() > 500  # rows with something on them


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to look at the report with")
def test_the_browser_would_tell_of_requests_and_errors(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<img src="http://127.0.0.1:9/image.png"><script>console.error("wrong")</script>')
    urls, said, _ = look_at(page, tmp_path)
    assert urls == ["http://127.0.0.1:9/image.png"]
    assert len(said) >= 1 and any("wrong" in line for line in said)


@pytest.mark.slow
def test_training_records_classes_per_evaluation_and_ends_with_a_report(command, scans, tmp_path):
    flags = ["--dataset", "images", "--data-dir", scans, "--model", "small_cnn", "--image-size", "16"]
    folder = tmp_path / "run"
    code, output, _ = command(*flags, "--model-dir", folder, "--max-steps", "4", "--evaluate-every", "2")
    assert code == 0
    assert f"the report is {folder}/report/report.html\n" in output
    entries = [json.loads(line) for line in (folder / "evaluations.jsonl").read_text().splitlines()]
    assert [(entry["step"], entry["classification"]["examples"]) for entry in entries] == [(2, 4), (4, 4)]
    tags = ["confusion_matrix", "samples"]
    assert images_of_events(folder / "eval") == [(step, tag) for step in (2, 4) for tag in tags]
    assert {"learning_rate.png", "throughput.png"} <= {file.name for file in (folder / "report").iterdir()}
