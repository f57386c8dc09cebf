"""estimator_train export: files that predict, elsewhere, what the command predicts."""

import dataclasses
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train import input_fns, model_to_estimator
from estimator_train._engine.exports.directories import exports_in
from estimator_train._engine.host import files
from estimator_train.app import conversion, models
from estimator_train.app.running import export as run_export

REAL = Path(__file__).parents[4] / "shared" / "data" / "OCT2017"

JUDGED = re.compile(r"its accuracy is (\S+), and the model's own (\S+)$")

# Python that has TensorFlow, and not this package.
SERVE = """
import json, sys
import tensorflow as tf
folder, *paths = sys.argv[1:]
serve = tf.saved_model.load(folder).signatures["serving_default"]
(values,) = serve(image_bytes=tf.constant([open(path, "rb").read() for path in paths])).values()
assert "estimator_train" not in sys.modules
print(json.dumps(values.numpy().tolist()))
"""


@pytest.fixture(scope="module")
def export(run_command, trained):
    """Exports the run into a folder in a format; returns the folder."""

    def export(file_format, folder):
        output = run_command("export", "--model-dir", trained.model_dir, "--format", file_format, "--out", folder)
        assert output.startswith(f"exported {trained.model_dir}/model.ckpt-12 as {folder}/")
        return folder

    return export


@pytest.fixture(scope="module")
def base_path(export, tmp_path_factory):
    """The folder with the run's SavedModel, as TensorFlow Serving would be given it."""
    return export("saved_model", tmp_path_factory.mktemp("exported") / "saved_model")


@pytest.fixture(scope="module")
def saved_model(base_path):
    """The run's SavedModel."""
    (version,) = exports_in(base_path)
    return version


@pytest.fixture(scope="module")
def keras_files(export, tmp_path_factory):
    """A folder with the run's Keras file and its weights, in which an export was killed before."""
    folder = tmp_path_factory.mktemp("exported") / "out"
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    host, _, _ = files.this_process().rpartition("-")
    (folder / f".weights.h5.{host}-{ended.pid}.part").mkdir(parents=True)
    for file_format in ("keras", "weights"):
        export(file_format, folder)
    return folder


@pytest.fixture(scope="module")
def paths(scans):
    """A few image files."""
    return [str(scans / "bright" / "7.png"), str(scans / "dark" / "0.jpeg")]


@pytest.fixture(scope="module")
def images(paths):
    """Their decoded images, as training takes them."""
    return next(iter(input_fns.image_files(paths, ["bright", "dark"], (24, 32), num_epochs=1)()))[0]


@pytest.fixture(scope="module")
def expected(trained, images):
    """The Estimator's predictions for `images`."""
    predictions = trained.predict(lambda: tf.data.Dataset.from_tensors(images))
    return np.stack([next(iter(prediction.values())) for prediction in predictions])


@pytest.mark.slow
def test_a_fresh_process_serving_image_files_agrees_with_predict(command, saved_model, scans, trained):
    paths = [*map(str, sorted(scans.rglob("*.*"))), *map(str, sorted(REAL.rglob("*.jpeg")))]
    _, output, _ = command("predict", "--model-dir", trained.model_dir, "--json", *paths)
    expected = [[entry["probabilities"][name] for name in ("bright", "dark")] for entry in json.loads(output)]
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    result = subprocess.run(
        [sys.executable, "-c", SERVE, saved_model, *paths],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(json.loads(result.stdout), expected, atol=1e-6)


@pytest.mark.slow
def test_the_saved_model_takes_image_files_and_decoded_images(saved_model, paths, images, expected):
    signatures = tf.saved_model.load(saved_model).signatures
    contents = tf.constant([Path(path).read_bytes() for path in paths])
    (served,) = signatures["serving_default"](image_bytes=contents).values()
    np.testing.assert_allclose(served, expected, atol=1e-6)
    serve = signatures["images:serving_default"]
    assert serve.structured_input_signature[1]["images"].shape.as_list() == [None, 24, 32, 3]
    (served,) = serve(images=images).values()
    np.testing.assert_allclose(served, expected, atol=1e-6)


@pytest.mark.slow
def test_the_keras_file_is_the_whole_trained_model(keras_files, images, expected):
    model = keras.models.load_model(keras_files / "model.keras")
    np.testing.assert_allclose(model.predict(images, verbose=0), expected, atol=1e-6)
    assert int(model.optimizer.iterations) == 12
    assert any(np.any(variable.numpy()) for variable in model.optimizer.variables[2:])  # Adam's moments


def test_weights_load_into_a_model_of_the_same_layers(keras_files, images, expected):
    weights = str(keras_files / "weights.h5")
    model = models.build_model("small_cnn", image_size=(24, 32), num_classes=2, weights=weights)
    np.testing.assert_allclose(model.predict(images, verbose=0), expected, atol=1e-6)


@pytest.mark.slow
def test_the_averages_and_the_decay_of_an_optimizer_are_exported(command, own_flags, tmp_path):
    code = (tmp_path / "own.py").read_text().replace("SGD(0.05)", "SGD(0.05, use_ema=True, ema_momentum=0.5)")
    (tmp_path / "own.py").write_text(code)
    changes = ["--weight-decay", "0.01", "--clip-norm", "5"]
    assert command(*own_flags, *changes, "--model-dir", "run", "--max-steps", "4")[0] == 0
    for file_format in ("keras", "saved_model"):
        arguments = ["--model-dir", "run", "--format", file_format, "--out", file_format]
        assert command("export", *arguments)[0] == 0
    build = runpy.run_path("own.py")["build"]
    (predicted,) = model_to_estimator(build(), model_dir="run").predict(
        lambda: tf.data.Dataset.from_tensors(tf.ones([1, 1]))
    )
    (expected,) = predicted.values()
    model = keras.models.load_model("keras/model.keras")
    np.testing.assert_allclose(model.predict(np.ones([1, 1]), verbose=0)[0], expected, atol=1e-6)
    config = model.optimizer.get_config()
    assert (config["weight_decay"], config["global_clipnorm"], config["use_ema"]) == (0.01, 5, True)
    signature = tf.saved_model.load(exports_in("saved_model")[-1]).signatures["serving_default"]
    (name,) = signature.structured_input_signature[1]  # the Keras model's own
    (served,) = signature(**{name: tf.ones([1, 1])}).values()
    np.testing.assert_allclose(served[0], expected, atol=1e-6)


def test_what_is_there_already_is_refused_and_kept(command, keras_files, trained):
    before = {path: path.stat().st_mtime_ns for path in keras_files.rglob("*")}
    arguments = ["--model-dir", trained.model_dir, "--format", "keras", "--out", keras_files]
    code, output, errors = command("export", *arguments)
    assert (code, output) == (2, "")
    line = f"--out {keras_files}: {keras_files}/model.keras already exists; remove it, or give another folder"
    assert errors == f"estimator_train: {line}\n"
    assert before == {path: path.stat().st_mtime_ns for path in keras_files.rglob("*")} != {}


@pytest.mark.slow
def test_a_second_saved_model_is_a_newer_version_beside_the_first(command, trained):
    arguments = ["--model-dir", trained.model_dir, "--format", "saved_model", "--out", "a base path"]
    for _ in range(2):
        code, output, _ = command("export", *arguments)
        assert code == 0
        exported, serve = output.splitlines()
        assert exported == f"exported {trained.model_dir}/model.ckpt-12 as {exports_in('a base path')[-1]}"
        volume = shlex.quote(f"{os.getcwd()}/a base path:/models/model")
        assert serve == f"serve it: docker run --rm -p 127.0.0.1:8501:8501 -v {volume} tensorflow/serving"
    versions = sorted(os.listdir("a base path"))
    assert len(versions) == 2 and all(version.isdecimal() for version in versions)
    assert all(Path("a base path", version, "saved_model.pb").exists() for version in versions)


@pytest.mark.parametrize(
    "file_format", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("saved_model", "keras")), "weights"]
)
def test_nothing_half_written_is_left(command, trained, monkeypatch, file_format):
    def fail(*arguments, **options):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    monkeypatch.setattr(tf.io.gfile, "rename", fail)
    arguments = ["--model-dir", trained.model_dir, "--format", file_format, "--out", "new/out"]
    code, _, errors = command("export", *arguments)
    assert (code, errors) == (2, "estimator_train: no space left\n")
    assert [path for path in Path("new").rglob("*") if path.is_file()] == []


def test_one_directory_takes_both_files_and_loses_a_killed_exports_files(keras_files):
    assert sorted(os.listdir(keras_files)) == ["model.keras", "weights.h5"]


@pytest.mark.smoke
def test_the_checkpoint_can_be_chosen(command, trained, images, expected):
    arguments = ["--model-dir", trained.model_dir, "--format", "keras", "--out", "out"]
    assert command("export", *arguments, "--checkpoint", f"{trained.model_dir}/model.ckpt-6")[0] == 0
    model = keras.models.load_model("out/model.keras")
    assert int(model.optimizer.iterations) == 6
    assert not np.allclose(model.predict(images, verbose=0), expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize(
    ("file_format", "name", "tolerance"),
    [
        ("tflite", "model.tflite", 1e-4),
        ("onnx", "model.onnx", 1e-4),
    ],
)
def test_a_converted_model_gives_what_predict_does(export, images, expected, tmp_path, file_format, name, tolerance):
    if file_format == "onnx":
        pytest.importorskip("tf2onnx"), pytest.importorskip("onnxruntime")
    content = (export(file_format, tmp_path) / name).read_bytes()
    run = conversion.run_onnx if file_format == "onnx" else conversion.run_tflite
    (outputs,) = run(content, {"images": images.numpy()}).values()
    np.testing.assert_allclose(outputs, expected, atol=tolerance)


@pytest.mark.slow
def test_an_exported_model_knows_its_classes_without_the_run(export, base_path, images, expected, tmp_path):
    names = [("bright", "dark")[index] for index in expected.argmax(axis=1)]
    (version,) = exports_in(base_path)
    (served,) = tf.saved_model.load(version).signatures["images:serving_default"](images=images).values()
    assert _named(Path(version, "assets.extra", "labels.txt"), served.numpy()) == names
    assert json.loads(Path(version, "assets.extra", "metadata.json").read_text())["image_size"] == [24, 32]
    content = (export("tflite", tmp_path) / "model.tflite").read_bytes()
    outputs = conversion.run_tflite(content, {"images": images.numpy()})
    assert _named(tmp_path / "model.labels.txt", outputs["probabilities"]) == names
    assert json.loads((tmp_path / "model.metadata.json").read_text())["class_names"] == ["bright", "dark"]


def test_an_onnx_file_knows_its_classes_and_names_its_batch(export, tmp_path):
    pytest.importorskip("tf2onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession(export("onnx", tmp_path) / "model.onnx")
    about = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
    assert (about["class_names"], about["image_size"]) == (["bright", "dark"], [24, 32])
    (images,), (outputs,) = session.get_inputs(), session.get_outputs()
    assert (images.name, images.shape) == ("images", ["batch", 24, 32, 3])
    assert (outputs.name, outputs.shape) == ("probabilities", ["batch", 2])


def _named(labels, outputs):
    names = labels.read_text().splitlines()
    return [names[index] for index in outputs.argmax(axis=1)]


# The command in one process, as main() ends it once for each command line.
RUN_ALL = """
import sys
from estimator_train.app.cli import main
for line in sys.stdin.read().splitlines():
    sys.argv = ["estimator_train", *line.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, line
"""


@pytest.mark.slow
def test_an_export_prints_no_line_of_another_library(scans, tmp_path):
    formats = ["keras", "weights", "tflite_int8"]  # which writes a SavedModel and converts it, as the others do
    lines = [f"train --dataset images --data-dir {scans} --model small_cnn --image-size 24 --max-steps 1 --quiet"]
    lines = [f"{lines[0]} --model-dir run", *(f"export --model-dir run --format {each} --out out" for each in formats)]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    arguments = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    result = subprocess.run([sys.executable, "-c", RUN_ALL], input="\n".join(lines), **arguments)
    assert (result.returncode, result.stderr.replace("\r", "")) == (0, "")
    assert all(line.startswith(("exported ", "serve it: ", "evaluated ")) for line in result.stdout.splitlines())


@pytest.mark.slow
def test_a_quantized_model_is_judged_by_its_accuracy(run_command, trained, images, expected, tmp_path):
    options = ["--model-dir", trained.model_dir, "--format", "tflite_int8", "--out", tmp_path]
    target = tmp_path / "model_int8.tflite"
    output = run_command("export", *options)
    assert output.startswith(f"exported {trained.model_dir}/model.ckpt-12 as {target}; on 4 evaluation images ")
    after, before = JUDGED.search(output).groups()
    assert after == before
    (outputs,) = conversion.run_tflite(target.read_bytes(), {"images": images.numpy()}).values()
    np.testing.assert_allclose(outputs, expected, atol=0.05)


@pytest.mark.slow
def test_a_quantized_model_that_loses_accuracy_is_written_with_a_warning(command, trained, monkeypatch):
    run_tflite = conversion.run_tflite

    def wrong(content, inputs):
        return dict.fromkeys(run_tflite(content, inputs), np.eye(2)[[1, 0]])  # there is one image of each class

    monkeypatch.setattr(run_export, "EVALUATED", 2)
    monkeypatch.setattr(conversion, "run_tflite", wrong)
    options = ["--model-dir", trained.model_dir, "--format", "tflite_dynamic_range", "--out", "out"]
    code, output, errors = command("export", *options)
    assert (code, Path("out/model_dynamic_range.tflite").exists()) == (0, True)
    assert "; on 2 evaluation images its accuracy is " in output
    after, before = map(float, JUDGED.search(output).groups())
    line = f"the tflite_dynamic_range model loses {before - after:g} of accuracy, more than 0.02; "
    assert f"estimator_train: {line}--format tflite predicts as the model does" in errors.splitlines()


@pytest.mark.slow
def test_calibration_takes_training_images_in_the_order_of_training(settings, scans):
    data = settings.open_data()
    calibration = list(run_export._calibration(dataclasses.replace(settings, seed=5), data, ["images"]))
    assert [len(each["images"]) for each in calibration] == [1] * data.train_examples
    read = data.train_input_fn(image_size=settings.image_size, batch_size=4, num_epochs=1, seed=5)()
    expected = np.concatenate([batch[0] for batch in read])
    np.testing.assert_array_equal(np.concatenate([each["images"] for each in calibration]), expected)


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="needs real photographs and weights")
def test_mobilenet_v2_in_8_bits_is_as_accurate_on_real_photographs(command, monkeypatch):
    monkeypatch.setattr(run_export, "CALIBRATED", 40)
    monkeypatch.setattr(run_export, "EVALUATED", 100)
    (weights,) = (REAL.parent / "weights").iterdir()
    flags = ["--dataset", "cats_vs_dogs", "--data-dir", REAL.parent / "cats_vs_dogs", "--weights", weights]
    flags += ["--image-size", "160", "--max-steps", "16", "--seed", "1", "--quiet"]
    assert command(*flags, "--model-dir", "run")[0] == 0
    code, output, errors = command("export", "--model-dir", "run", "--format", "tflite_int8", "--out", "out")
    after, before = map(float, JUDGED.search(output).groups())
    assert (code, before > 0.9, before - after <= 0.02) == (0, True, True)
    assert " loses " not in errors


@pytest.mark.slow
def test_a_converted_model_that_cannot_be_run_is_one_line(command, trained, monkeypatch):
    def broken(content, inputs):
        raise RuntimeError("failed to prepare\nnode 6")

    monkeypatch.setattr(conversion, "run_tflite", broken)
    code, _, errors = command("export", "--model-dir", trained.model_dir, "--format", "tflite_int8", "--out", "out")
    message = "the tflite_int8 model is not written, because it cannot be run: failed to prepare"
    assert (code, errors.splitlines()[-1]) == (2, f"estimator_train: {message}")


@pytest.mark.slow
def test_a_converted_model_that_differs_from_predict_is_not_written(command, trained, monkeypatch):
    run_tflite = conversion.run_tflite

    def wrong(content, inputs):
        return {name: 1 + values for name, values in run_tflite(content, inputs).items()}

    monkeypatch.setattr(conversion, "run_tflite", wrong)
    code, output, errors = command("export", "--model-dir", trained.model_dir, "--format", "tflite", "--out", "out")
    assert (code, output) == (2, "")
    assert re.fullmatch(
        r"estimator_train: the tflite model is not written: on a batch of the run's data it differs from predict by "
        r"\S+, more than 0.0001",
        errors.splitlines()[-1],
    )
    assert not list(Path("out").iterdir())


@pytest.mark.slow
def test_a_model_of_ones_own_is_converted_with_its_own_inputs(command, own_flags):
    assert command(*own_flags, "--model-dir", "run", "--max-steps", "1")[0] == 0
    code, output, _ = command("export", "--model-dir", "run", "--format", "tflite_int8", "--out", "out")
    assert code == 0
    assert re.search(r"out/model_int8.tflite; on 1 examples it differs from predict by \S+ at most", output)
