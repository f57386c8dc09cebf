"""Training on a CSV manifest by the command, of several labels and of numbers: metrics, predictions and the report."""

import csv
import json

import numpy as np
import pytest
import tf_keras as keras
from PIL import Image

from estimator_train.app.models import small_cnn

RNG = np.random.default_rng(2)


@pytest.fixture
def write(tmp_path):
    """Writes images of the given brightnesses, and a manifest with a row for each."""

    def write_manifest(levels, labels, weights=None):
        (tmp_path / "images").mkdir()
        rows = [["path", "label", "split", *(["weight"] if weights else [])]]
        for number, (level, label) in enumerate(zip(levels, labels, strict=True)):
            pixels = np.clip(np.asarray(level) + RNG.normal(0, 0.03, (16, 16, 3)), 0, 1)
            Image.fromarray(np.uint8(255 * pixels)).save(tmp_path / "images" / f"{number:02}.png")
            split = "test" if number % 4 == 3 else "train"
            rows.append([f"images/{number:02}.png", label, split, *([weights[number]] if weights else [])])
        with open(tmp_path / "labels.csv", "w", newline="") as file:
            csv.writer(file).writerows(rows)

    return write_manifest


@pytest.fixture(scope="module", autouse=True)
def quick_models():
    """Replaces small_cnn by a model of mean colors, which are all that it has to tell here."""

    def build(image_size, head):
        layers = [keras.Input((*image_size, 3)), keras.layers.GlobalAveragePooling2D(), *head.layers()]
        model = keras.Sequential(layers)
        head.compile(model, keras.optimizers.Adam(0.1))
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_cnn, "build", build)
        yield


FLAGS = ["--dataset", "manifest", "--data-dir", "labels.csv", "--model", "small_cnn", "--image-size", 16]
FLAGS += ["--batch-size", 6, "--seed", 1, "--model-dir", "run"]


def evaluated(output):
    return json.loads(output)[0]


@pytest.mark.slow
def test_several_labels_are_trained_evaluated_predicted_and_reported(command, write, tmp_path):
    red, blue = RNG.integers(0, 2, (2, 32))
    levels = 0.1 + 0.8 * np.stack([red, np.zeros(32), blue], axis=1)[:, None, None]
    write(levels, ["|".join(np.array(["blue", "red"])[[b, r] > np.zeros(2)]) for r, b in zip(red, blue, strict=True)])
    code, output, errors = command(*FLAGS, "--task", "multilabel", "--epochs", 20)
    assert code == 0, errors
    assert "24 images to train on and 8 to evaluate on, with 2 labels" in output
    assert f"labels       blue {blue[np.arange(32) % 4 != 3].sum()} + {blue[3::4].sum()}, red" in output
    code, output, _ = command("evaluate", "--model-dir", "run", "--json", "--predictions", "predictions.csv")
    numbers = evaluated(output)["multilabel"]
    assert numbers["exact_match"] >= 0.75 and numbers["macro_f1"] > 0.8
    assert numbers["labels"]["red"]["support"] == red[3::4].sum()
    header, *rows = csv.reader((tmp_path / "predictions.csv").read_text().splitlines())
    assert header == ["file", "true_labels", "predicted_labels", "blue", "red"]
    right = [true == predicted for _, true, predicted, *_ in rows]
    assert np.mean(right) == numbers["exact_match"]
    code, output, _ = command("predict", "--model-dir", "run", "--json", "images/03.png")
    (entry,) = json.loads(output)
    assert entry["probabilities"].keys() == {"blue", "red"}
    assert entry["labels"] == [name for name, value in entry["probabilities"].items() if value >= 0.5]
    page = (tmp_path / "run" / "report" / "report.html").read_text()
    assert "<h2>Labels</h2>" in page and "<h3>Confusion matrix</h3>" not in page
    assert f"{numbers['labels']['red']['roc_auc']:.4f}" in page
    code, output, _ = command("export", "--model-dir", "run", "--format", "tflite_int8", "--out", "out")
    assert output.endswith(f", and the model's own {numbers['macro_f1']:.4f}\n") and "its macro F1 is" in output
    _check_thresholds(command, tmp_path)


def _check_thresholds(command, tmp_path):
    """Chooses thresholds for the run, and checks the commands that use them."""
    code, output, errors = command("evaluate", "--model-dir", "run", "--choose-thresholds", "--csv")
    assert code == 0 and "chosen on 8 evaluation images, on which the numbers are therefore too good" in errors
    chosen = json.loads((tmp_path / "run" / "thresholds.json").read_text())
    rows = [row.split(",") for row in output.splitlines()]
    assert {row[3]: float(row[-1]) for row in rows if row[2] == "threshold"} == chosen["values"]
    code, output, errors = command("evaluate", "--model-dir", "run")
    assert code == 0 and "using the thresholds in run/thresholds.json, chosen on 8 evaluation images" in errors
    assert "macro average" in output and "all labels right" in output
    blue, red = chosen["values"].values()
    assert f"\nlabels are predicted from these probabilities on: blue {blue:.4f}, red {red:.4f}\n" in output
    assert "using" not in command("evaluate", "--model-dir", "run", "--all")[2]  # all are ranked by the same
    assert command("report", "--model-dir", "run")[0] == 0
    page = (tmp_path / "run" / "report" / "report.html").read_text()
    assert f'<td data-name="Threshold">{red:.4f}</td>' in page
    (tmp_path / "run" / "thresholds.json").write_text(json.dumps(chosen | {"values": {"blue": 0, "red": 0}}))
    entries = json.loads(command("predict", "--model-dir", "run", "--json", "images")[1])
    assert {tuple(entry["labels"]) for entry in entries} == {("blue", "red")}


@pytest.mark.slow
def test_numbers_are_trained_with_weights_evaluated_predicted_and_reported(command, write, tmp_path):
    brightness = RNG.uniform(0.1, 0.9, 32)
    labels = 1000 + 200 * brightness
    # Half of the labels to train on are wrong, and weigh nothing.
    is_wrong = (np.arange(32) % 4 == 1) | (np.arange(32) % 8 == 2)
    levels = brightness[:, None, None, None] * np.ones((1, 1, 1, 3))
    write(levels, np.where(is_wrong, 5000, labels).tolist(), np.where(is_wrong, 0, 1).tolist())
    code, output, errors = command(*FLAGS, "--task", "regression", "--epochs", 20)
    assert code == 0, errors
    code, output, _ = command("evaluate", "--model-dir", "run", "--json")
    numbers, metrics = evaluated(output)["regression"], evaluated(output)["metrics"]
    assert numbers["mean_absolute_error"] < 100  # the wrong ones would draw it to some 3000
    assert numbers["mean_absolute_error"] == pytest.approx(metrics["mean_absolute_error"], rel=1e-4)
    code, output, _ = command("evaluate", "--model-dir", "run")
    assert "mean absolute error" in output and "R2" in output
    code, output, _ = command("predict", "--model-dir", "run", "--csv", "images/03.png")
    assert output.splitlines()[0] == "file,number"
    assert 500 < float(output.splitlines()[1].split(",")[1]) < 1700
    code, output, _ = command("evaluate", "--model-dir", "run", "--all")
    assert output.split()[:2] == ["checkpoint", "step"] and "RMSE" in output
    page = (tmp_path / "run" / "report" / "report.html").read_text()
    assert "<h2>Regression</h2>" in page and "Largest errors first." in page
    assert (tmp_path / "run" / "report" / "predictions.png").exists()
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert settings["task"] == "regression" and len(settings["label_moments"]) == 2
    code, output, _ = command("export", "--model-dir", "run", "--format", "tflite_float16", "--out", "out")
    assert output.endswith(f", and the model's own {numbers['r2']:.4f}\n") and "8 evaluation images its R2 is" in output
    code, output, errors = command("--model-dir", "run", "--resume", "--epochs", 21)
    assert code == 0, errors
