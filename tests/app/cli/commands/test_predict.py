"""estimator_train predict: a class and probabilities for every image file that can be read."""

import collections
import csv
import dataclasses
import importlib.util
import io
import json
import os
import runpy
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from pyarrow import parquet

from estimator_train import input_fns, model_to_estimator
from estimator_train._engine.exports.directories import exports_in
from estimator_train.app.cli.commands import predict
from estimator_train.app.running import build, image_paths, prediction
from estimator_train.app.runs import run_file, thresholds

REAL = Path(__file__).parents[5] / "shared" / "data" / "OCT2017"


@pytest.mark.slow
def test_json_holds_what_the_estimator_predicts(command, trained, scans):
    code, output, errors = command("predict", "--model-dir", trained.model_dir, "--json", scans)
    assert (code, errors) == (0, "")
    entries = json.loads(output)
    paths = sorted(map(str, scans.rglob("*.*")))
    assert [entry["file"] for entry in entries] == paths

    input_fn = input_fns.image_files(paths, ["bright", "dark"], (24, 32), num_epochs=1)
    expected = [next(iter(prediction.values())) for prediction in trained.predict(input_fn)]
    given = [[entry["probabilities"]["bright"], entry["probabilities"]["dark"]] for entry in entries]
    np.testing.assert_allclose(given, expected, atol=1e-6)
    assert [entry["class"] for entry in entries] == [("bright", "dark")[np.argmax(values)] for values in expected]


def test_files_folders_and_patterns_give_each_file_once_in_the_order_given(command, trained, scans, tmp_path):
    shutil.copytree(scans / "dark", tmp_path / "scans[1]")  # brackets in a folder of a pattern are read as they are
    arguments = [f"{scans}/dark/[12].jpeg", scans / "bright", scans / "dark" / "2.jpeg", "scans[1]/*.jpeg"]
    code, output, _ = command("predict", "--model-dir", trained.model_dir, "--csv", *arguments)
    assert code == 0
    header, *rows = csv.reader(io.StringIO(output))
    assert header == ["file", "class", "bright", "dark"]
    bright = [f"{scans}/bright/{index}.{'png' if index == 7 else 'jpeg'}" for index in range(8)]
    copies = [f"scans[1]/{index}.jpeg" for index in range(7)]
    assert [row[0] for row in rows] == [f"{scans}/dark/1.jpeg", f"{scans}/dark/2.jpeg", *bright, *copies]
    assert all(np.isclose(float(row[2]) + float(row[3]), 1) for row in rows)


@pytest.fixture
def predicted_once(monkeypatch):
    """Spares tests of the output the predictions that a command before has made of the same files."""
    predict, known = prediction.predict, {}

    def predict_once(settings, model_dir, checkpoint, paths):
        key = (checkpoint, *paths)
        if key not in known:
            known[key] = predict(settings, model_dir, checkpoint, paths)
        return known[key]

    monkeypatch.setattr(prediction, "predict", predict_once)


@pytest.fixture
def tree(scans, tmp_path):
    """A folder of images at several levels, with a link back to its top."""
    shutil.copytree(scans, tmp_path / "tree" / "of" / "scans")
    (tmp_path / "tree" / "of" / "all").symlink_to("..")
    shutil.copy(scans / "dark" / "0.jpeg", tmp_path / "tree" / "Z.JPEG")
    return tmp_path / "tree"


@pytest.mark.slow
def test_a_tree_is_written_to_a_file_of_each_format(command, trained, tree, predicted_once, tmp_path):
    flags = ["predict", "--model-dir", trained.model_dir, "tree"]
    _, printed, _ = command(*flags, "--csv")
    rows = list(csv.reader(io.StringIO(printed)))
    assert len(rows) == 18 and len({row[0] for row in rows}) == 18  # the link leads nowhere new
    code, output, errors = command(*flags, "--out", "all.csv")
    assert (code, output, errors) == (0, "17 predictions are in all.csv\n", "")
    assert (tmp_path / "all.csv").read_text() == printed
    command(*flags, "--out", "all.JSON")
    assert json.loads((tmp_path / "all.JSON").read_text()) == json.loads(command(*flags, "--json")[1])
    assert command(*flags, "--out", "all.parquet")[1] == "17 predictions are in all.parquet\n"
    table = parquet.read_table(tmp_path / "all.parquet")
    assert table.column_names == rows[0]
    assert [list(map(str, row.values())) for row in table.to_pylist()] == rows[1:]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.JSON", "all.csv", "all.parquet", "tree"]


@pytest.mark.slow
def test_the_most_probable_classes_come_in_pairs(command, trained, tree, predicted_once):
    flags = ["predict", "--model-dir", trained.model_dir, "tree/Z.JPEG"]
    ((header, row),) = [csv.reader(io.StringIO(command(*flags, "--csv", "--top", "9")[1]))]
    assert header == ["file", "class", "probability", "class_2", "probability_2"]
    (entry,) = json.loads(command(*flags, "--json", "--top", "2")[1])
    assert row == ["tree/Z.JPEG", *(str(each) for pair in entry["probabilities"].items() for each in pair)]
    assert float(row[2]) > float(row[4]) and entry["class"] == row[1] == "dark"
    table = command(*flags, "--top", "1")[1].splitlines()
    assert table[0].split() == ["file", "class", "probability"] and table[2].split()[1] == "dark"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.slow
def test_a_terminal_gets_a_bar_apart_from_the_output(command, trained, tree, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    code, output, _ = command("predict", "--model-dir", trained.model_dir, "--csv", "tree")
    assert code == 0 and len(output.splitlines()) == 18
    assert "\r  0%|          | 0/17 [" in terminal.getvalue() and "image/s" in terminal.getvalue()


def test_parquet_without_pyarrow_is_one_line(command, trained, tree, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, output, errors = command("predict", "--model-dir", trained.model_dir, "tree", "--out", "a.parquet")
    assert (code, output) == (2, "")
    assert errors == (
        "estimator_train: --out a.parquet: pyarrow is not installed: pip install pyarrow, or give a .csv file\n"
    )


def test_labels_are_predicted_by_the_thresholds_of_the_run(command, settings, scans, tmp_path, monkeypatch):
    own = dataclasses.replace(settings, dataset="manifest", task="multilabel", class_names=("a", "b", "c"))
    run_file.save(tmp_path / "run", dataclasses.asdict(own))
    chosen = {"a": 0.1, "b": 0.5, "c": 0.7}
    thresholds.write(tmp_path / "run", thresholds.Thresholds(chosen, "model.ckpt-6", "validation", 9))
    monkeypatch.setattr(build, "checkpoint_paths", lambda *_: ["run/model.ckpt-6"])
    values = np.array([0.25, 0.875, 0.625], "float32")
    monkeypatch.setattr(prediction, "predict", lambda *given: ({path: values for path in given[-1]}, []))
    flags = ["predict", "--model-dir", "run", scans / "dark" / "0.jpeg"]

    code, output, errors = command(*flags, "--json")
    assert code == 0 and errors == "using the thresholds in run/thresholds.json, chosen on 9 validation images\n"
    (entry,) = json.loads(output)
    assert (entry["labels"], entry["probabilities"]) == (["a", "b"], {"a": 0.25, "b": 0.875, "c": 0.625})
    header, row = csv.reader(io.StringIO(command(*flags, "--csv", "--top", "2")[1]))
    assert header[1:] == ["labels", "label_1", "probability_1", "label_2", "probability_2"]
    assert row[1:] == ["a|b", "b", "0.875", "c", "0.625"]

    (tmp_path / "run" / "thresholds.json").write_text("{")
    code, output, errors = command(*flags)
    assert (code, output, errors.count("\n")) == (2, "", 1) and "choose thresholds again, or delete it" in errors


@pytest.mark.smoke
def test_unreadable_images_are_named_and_the_others_predicted(command, trained, scans, tmp_path):
    whole = (scans / "dark" / "0.jpeg").read_bytes()
    contents = {"a cut.jpeg": whole[:200], "b[1].jpeg": whole, "c empty.png": b"", "d.txt": b"text", "e.HEIC": b"ftyp"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    arguments = [*contents, "nowhere.jpeg"]
    code, output, errors = command("predict", "--model-dir", trained.model_dir, "--json", *arguments)
    assert code == 1
    assert [entry["file"] for entry in json.loads(output)] == ["b[1].jpeg"]
    named = [line for line in errors.splitlines() if line.startswith("estimator_train: ")]
    assert named == [
        "estimator_train: nowhere.jpeg: there is no such image file",
        "estimator_train: a cut.jpeg cannot be decoded: no readable image",
        "estimator_train: c empty.png cannot be decoded: no readable image",
        "estimator_train: d.txt cannot be decoded: no readable image",
        "estimator_train: e.HEIC cannot be decoded: TensorFlow reads no HEIC; convert it to JPEG",
    ]


def test_an_image_without_finite_probabilities_has_no_class(settings, scans, monkeypatch):
    def predict_some(input_fn, checkpoint_path):
        outputs = iter([[np.nan, np.nan], [0.25, 0.75]])
        for images in input_fn():
            yield from ({"dense": np.array(next(outputs))} for _ in images)

    paths = [f"{scans}/dark/{index}.jpeg" for index in range(2)]
    monkeypatch.setattr(prediction, "build_estimator", lambda *_: types.SimpleNamespace(predict=predict_some))
    predictions, faults = prediction.predict(settings, "run", "model.ckpt-2", paths)
    assert {path: list(values) for path, values in predictions.items()} == {paths[1]: [0.25, 0.75]}
    assert faults == [f"{paths[0]}: the model gives numbers that are not finite"]


@pytest.fixture
def dark_is_closed(monkeypatch):
    """Lets nobody read a folder called dark; root, who runs these tests in containers, may read all others."""
    list_folder = Path.iterdir

    def list_open(folder):
        if folder.name == "dark":
            raise PermissionError(13, "Permission denied", str(folder))
        return list_folder(folder)

    monkeypatch.setattr(Path, "iterdir", list_open)


def test_folders_that_cannot_be_read_are_named_and_the_others_searched(scans, dark_is_closed):
    others, unreadable = collections.Counter(), []
    found = image_paths._image_files(str(scans), others, unreadable)
    assert found == sorted(map(str, (scans / "bright").glob("*")))
    assert unreadable == [f"{scans}/dark cannot be read: Permission denied"]


def test_a_folder_that_cannot_be_read_is_one_line(command, trained, scans, dark_is_closed):
    code, output, errors = command("predict", "--model-dir", trained.model_dir, scans / "dark")
    reason = f"{scans}/dark cannot be read: Permission denied"
    assert (code, output, errors) == (2, "", f"estimator_train: there is no image file '{scans}/dark'; {reason}\n")


@pytest.mark.slow
def test_a_batch_without_a_readable_image_does_not_stop_the_rest(command, trained, scans, tmp_path):
    for index in range(5):  # a batch is 4
        (tmp_path / f"{index}.jpeg").write_text("text")
    code, output, _ = command(
        "predict", "--model-dir", trained.model_dir, "--json", tmp_path, scans / "bright" / "0.jpeg"
    )
    assert (code, len(json.loads(output))) == (1, 1)
    code, output, _ = command("predict", "--model-dir", trained.model_dir, "--json", tmp_path)
    assert (code, json.loads(output)) == (1, [])


@pytest.mark.slow
def test_a_table_is_the_default_format_and_a_checkpoint_can_be_chosen(command, trained, scans, predicted_once):
    flags = ["predict", "--model-dir", trained.model_dir, scans / "dark" / "0.jpeg"]
    _, newest, _ = command(*flags)
    headers, _, row = newest.splitlines()
    assert headers.split() == ["file", "class", "bright", "dark"]
    assert row.split()[:2] == [f"{scans}/dark/0.jpeg", "dark"]
    assert command(*flags, "--checkpoint", f"{trained.model_dir}/model.ckpt-12.index")[1] == newest
    assert command(*flags, "--checkpoint", "model.ckpt-12")[1] == newest
    _, newest, _ = command(*flags, "--csv")  # with all digits
    assert command(*flags, "--csv", "--checkpoint", "6")[1] != newest


def test_a_class_that_looks_like_a_number_is_printed_as_it_is(capsys):
    entries = [{"file": "a.png", "class": name, "probabilities": {"2.5": 0.75, "1e5": 0.25}} for name in ("2.5", "1e5")]
    predict._write(types.SimpleNamespace(top=None, out=None, json=False, csv=False), entries, "class", ["2.5", "1e5"])
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split() for row in rows] == [["a.png", name, "0.7500", "0.2500"] for name in ("2.5", "1e5")]


TWO_OUTPUTS = """
import tf_keras as keras

def build(image_size):
    image = keras.Input([*image_size, 3])
    flat = keras.layers.Flatten()(image)
    model = keras.Model(image, [keras.layers.Dense(2, name="a")(flat), keras.layers.Dense(3, name="b")(flat)])
    model.compile("sgd", "mse")
    return model
"""


@pytest.mark.slow
def test_a_model_of_other_outputs_is_refused(command, settings, scans, tmp_path):
    (tmp_path / "two.py").write_text(TWO_OUTPUTS)
    own = dataclasses.replace(settings, model=str(tmp_path / "two.py:build"))
    run_file.save(tmp_path / "run", dataclasses.asdict(own))
    model = runpy.run_path(str(tmp_path / "two.py"))["build"](settings.image_size)
    example = tf.zeros([1, *settings.image_size, 3]), (tf.zeros([1, 2]), tf.zeros([1, 3]))
    model_to_estimator(model, model_dir=tmp_path / "run").train(lambda: tf.data.Dataset.from_tensors(example))
    code, output, errors = command("predict", "--model-dir", "run", "--trust-run", scans / "dark" / "0.jpeg")
    assert (code, output) == (2, "")
    assert (
        "the model gives 'a' (2,), 'b' (3,) for an image, and predict needs one probability for each of the 2" in errors
    )


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="the real OCT images are not here")
def test_real_scans_are_predicted(command, trained):
    code, output, _ = command("predict", "--model-dir", trained.model_dir, "--json", REAL)
    assert (code, len(json.loads(output))) == (0, 28)


@pytest.mark.slow
def test_each_file_that_is_left_out_is_named_with_the_reason(command, trained, scans, tmp_path):
    Image.new("RGB", (8, 8)).save(
        tmp_path / "a.jpeg", "WEBP", save_all=True, append_images=[Image.new("RGB", (8, 8), "red")]
    )
    Image.new("1", (14000, 14000)).save(tmp_path / "b.png")
    os.mkfifo(tmp_path / "c.jpeg")
    (tmp_path / "d.jpeg").symlink_to("nowhere")
    whole = tmp_path / os.fsdecode(b"e[1]\xff.jpeg")
    whole.write_bytes((scans / "dark" / "0.jpeg").read_bytes())
    code, output, errors = command("predict", "--model-dir", trained.model_dir, "--csv", tmp_path)
    assert code == 1
    assert [line.split(",")[0] for line in output.splitlines()[1:]] == [f"{tmp_path}/e[1]\\udcff.jpeg"]
    named = [line for line in errors.splitlines() if line.startswith("estimator_train: ")]
    assert named == [
        f"estimator_train: {tmp_path}/c.jpeg is a pipe, socket or device, not an image file",
        f"estimator_train: {tmp_path}/a.jpeg cannot be decoded: an animated WebP; save one of its frames as an image",
        f"estimator_train: {tmp_path}/b.png cannot be decoded: its 14000 x 14000 pixels exceed 89478485; scale it down",
        f"estimator_train: {tmp_path}/d.jpeg cannot be read: there is no such file; restore it",
    ]


TURNED = ["", "FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_90", "TRANSVERSE", "ROTATE_270"]


@pytest.mark.slow
def test_a_photo_has_one_prediction_in_every_format(command, trained, tmp_path):
    """In training's pipeline, which evaluate uses, in predict, and in the exported model; padded, not as by default."""
    run, folder = tmp_path / "run", tmp_path / "photos"
    shutil.copytree(trained.model_dir, run)
    about = json.loads((run / "run.json").read_text())
    about["settings"]["resize"] = "pad"
    (run / "run.json").write_text(json.dumps(about))
    rows, columns = np.mgrid[0:60, 0:90]
    photo = Image.fromarray(np.stack([2 * columns, 255 - 3 * rows, 40 + 2 * rows], axis=-1).astype("uint8"))
    for name in ("bright", "dark"):
        (folder / name).mkdir(parents=True)
    photo.save(folder / "dark" / "photo.png")
    for orientation, transpose in enumerate(TURNED, start=1):
        exif = Image.Exif()
        exif[0x0112] = orientation
        stored = photo.transpose(Image.Transpose[transpose]) if transpose else photo
        stored.save(folder / "bright" / f"{orientation}.jpeg", quality=98, subsampling=0, exif=exif)
    photo.convert("CMYK").save(folder / "bright" / "cmyk.jpg", quality=98, subsampling=0)
    for ending in ("webp", "bmp", "gif", "tiff"):
        photo.save(folder / "bright" / f"photo.{ending}", **({"lossless": True} if ending == "webp" else {}))
    (folder / "bright" / "photo.heic").touch()

    code, output, errors = command("predict", "--model-dir", run, "--json", folder)
    assert code == 0 and "\nestimator_train: left out: 1 file of other formats: .heic 1 (convert" in f"\n{errors}"
    predictions = {entry["file"]: entry for entry in json.loads(output)}
    assert len(predictions) == 14
    expected = predictions[str(folder / "dark" / "photo.png")]
    for path, entry in predictions.items():
        assert entry["class"] == expected["class"], path
        assert entry["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-2), path

    table = tmp_path / "all.csv"
    assert command("evaluate", "--model-dir", run, "--data-dir", folder, "--predictions", table)[0] == 0
    lines = [line.split(",") for line in table.read_text().splitlines()[1:]]
    assert {path for path, *_ in lines} == set(predictions)
    for path, _, _, *values in lines:
        same = list(predictions[path]["probabilities"].values())
        assert [float(value) for value in values] == pytest.approx(same, abs=1e-5)

    assert command("export", "--model-dir", run, "--format", "saved_model", "--out", tmp_path / "saved")[0] == 0
    serve = tf.saved_model.load(exports_in(tmp_path / "saved")[-1]).signatures["serving_default"]
    served = sorted(path for path in predictions if not path.endswith(".tiff"))  # no operation of TensorFlow reads it
    (values,) = serve(tf.constant([Path(path).read_bytes() for path in served])).values()
    for path, probabilities in zip(served, values.numpy(), strict=True):
        same = list(predictions[path]["probabilities"].values())
        assert probabilities == pytest.approx(same, abs=1e-2), path
