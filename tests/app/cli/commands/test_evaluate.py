"""estimator_train evaluate: metrics of checkpoints, and of the classes."""

import csv
import dataclasses
import io
import json
import os
import runpy
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimator_train import model_to_estimator
from estimator_train.app import datasets
from estimator_train.app.cli.commands.evaluate import _rank
from estimator_train.app.metrics import regression, tasks
from estimator_train.app.running import evaluation
from estimator_train.app.runs import evaluations, predictions_file, run_file


@pytest.fixture(scope="module")
def data(settings):
    return datasets.open_dataset("images", settings.data_dir)


@pytest.fixture(scope="module")
def expected(trained, settings, data):
    """The metrics of `Estimator.evaluate` by checkpoint name."""
    input_fn = data.eval_input_fn(image_size=settings.image_size, batch_size=settings.batch_size)
    paths = [f"{trained.model_dir}/model.ckpt-{step}" for step in (0, 6, 12)]
    metrics = {Path(path).name: trained.evaluate(input_fn, checkpoint_path=path) for path in paths}
    return {
        name: {key: float(value) for key, value in values.items() if key != "global_step"}
        for name, values in metrics.items()
    }


@pytest.fixture(scope="module")
def outputs(trained, run_command, tmp_path_factory):
    """Standard output of the command by its flags; and the "predictions" and the "log".

    The first evaluates all checkpoints, each once; the flags of the others choose checkpoints and output.
    """
    evaluate, evaluations = evaluation.evaluate, {}

    def evaluate_once(settings, data, model_dir, paths, thresholds):
        if new := [path for path in paths if path not in evaluations]:
            evaluations.update(zip(new, evaluate(settings, data, model_dir, new, thresholds), strict=True))
        return [evaluations[path] for path in paths]

    file = tmp_path_factory.mktemp("evaluate") / "predictions.csv"
    written = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "evaluate", evaluate_once)
        for flags in ("--all", "", "--csv", "--all --json", f"--json --predictions {file}"):
            output = run_command("evaluate", "--model-dir", trained.model_dir, *flags.split())
            written[flags.partition(" --predictions")[0]] = output
    return written | {"predictions": rows_of(file), "log": log(trained.model_dir)}


@pytest.fixture
def entry(outputs):
    """The evaluation of the newest checkpoint, from --json."""
    (entry,) = json.loads(outputs["--json"])
    return entry


def rows_of(file):
    return list(csv.reader(io.StringIO(file.read_text())))


def log(model_dir):
    return [json.loads(line) for line in Path(model_dir, "evaluations.jsonl").read_text().splitlines()]


def test_json_holds_the_estimators_metrics_and_those_of_the_classes(entry, expected, data):
    assert (entry["checkpoint"], entry["step"]) == ("model.ckpt-12", 12)
    assert expected["model.ckpt-12"].items() <= entry["metrics"].items()
    assert entry["metrics"]["macro_f1"] == entry["classification"]["macro_f1"]
    of_classes = entry["classification"]
    assert of_classes["accuracy"] == pytest.approx(expected["model.ckpt-12"]["accuracy"])
    assert of_classes["examples"] == data.eval_examples == 4
    assert {name: of_class["support"] for name, of_class in of_classes["classes"].items()} == {"bright": 2, "dark": 2}


def test_tables_are_shown_where_no_format_is_named(outputs, expected):
    lines = outputs[""].splitlines()
    values = [f"{value:.4f}" for value in expected["model.ckpt-12"].values()]
    assert lines[2].split() == ["model.ckpt-12", "12", *values]
    assert {"class", "bright", "dark", "macro", "true", "accuracy"} <= {line.split()[0] for line in lines if line}
    assert max(map(len, lines)) <= 80


def test_csv_holds_the_numbers_of_json(outputs, entry):
    rows = list(csv.DictReader(io.StringIO(outputs["--csv"])))
    assert {(row["checkpoint"], row["step"]) for row in rows} == {("model.ckpt-12", "12")}
    values = {(row["metric"], row["class"], row["predicted_class"]): row["value"] for row in rows}
    assert len(values) == len(rows)
    of_classes = entry["classification"]
    assert float(values["loss", "", ""]) == entry["metrics"]["loss"]
    assert float(values["macro_f1", "", ""]) == of_classes["macro_f1"]
    bounds = [float(values[f"accuracy_{side}", "", ""]) for side in ("low", "high")]
    assert bounds == of_classes["accuracy_interval"]
    assert float(values["recall", "dark", ""]) == of_classes["classes"]["dark"]["recall"]
    assert int(values["confusion", "dark", "bright"]) == of_classes["confusion_matrix"][1][0]


@pytest.mark.smoke
def test_all_checkpoints_are_ranked_by_accuracy_then_loss(outputs, expected):
    best_first = sorted(expected, key=lambda name: (-expected[name]["accuracy"], expected[name]["loss"]))
    entries = json.loads(outputs["--all --json"])
    assert [entry["checkpoint"] for entry in entries] == best_first
    for entry, name in zip(entries, best_first, strict=True):
        assert expected[name].items() <= entry["metrics"].items()
    headers, _, *rows = outputs["--all"].splitlines()
    assert headers.split() == ["checkpoint", "step", "loss", "accuracy", "macro", "F1", "ROC", "AUC"]
    assert [row.split()[0] for row in rows] == best_first


def test_a_regression_that_is_not_finite_ranks_last():
    worse_than_the_mean = regression.result([], np.array([[1.0], [3.0]]), np.array([[9.0], [9.0]]))
    diverged = {"metrics": {"loss": None}}, None
    results = [diverged, ({"metrics": {"loss": 50.0}}, worse_than_the_mean)]
    assert sorted(results, key=_rank)[-1] is diverged


def test_predictions_are_a_row_an_image(outputs, entry, settings, data):
    header, *rows = outputs["predictions"]
    assert header == ["file", "true_class", "predicted_class", "bright", "dark"]
    assert sorted(row[0] for row in rows) == sorted(data.eval.paths)
    assert [row[1] for row in rows] == [Path(row[0]).parent.name for row in rows]
    probabilities = np.array([row[3:] for row in rows], float)
    assert [row[2] for row in rows] == [settings.class_names[index] for index in probabilities.argmax(axis=1)]
    matrix = [[sum(row[1:3] == [true, guess] for row in rows) for guess in header[3:]] for true in header[3:]]
    assert matrix == entry["classification"]["confusion_matrix"]


def test_predictions_agree_with_predict_for_each_file(outputs, command, trained):
    _, *rows = outputs["predictions"]
    _, output, _ = command("predict", "--model-dir", trained.model_dir, "--csv", *(row[0] for row in rows))
    _, *predicted = csv.reader(io.StringIO(output))
    assert [row[0] for row in predicted] == [row[0] for row in rows]
    np.testing.assert_allclose(
        np.array([row[3:] for row in rows], float), np.array([row[2:] for row in predicted], float), atol=1e-6
    )


def test_every_evaluation_is_a_line_of_the_log(outputs, entry):
    ranked = json.loads(outputs["--all --json"])
    *_, first, second, third, newest = outputs["log"]
    assert [first, second, third] == sorted(ranked, key=lambda entry: entry["step"])
    assert newest == entry


def test_examples_that_are_no_files_are_numbered(command, trained, monkeypatch, tmp_path):
    images = np.random.default_rng(0).random((5, 24, 32, 3), "float32")
    batches = tf.data.Dataset.from_tensor_slices((images, np.eye(2, dtype="float32")[[0, 1, 1, 0, 1]])).batch(3)
    made = types.SimpleNamespace(
        class_names=("bright", "dark"),
        train_input_fn=lambda **_: None,
        eval_input_fn=lambda **_: lambda: batches,
        image_paths=lambda: None,
        parts={},
    )
    monkeypatch.setattr(datasets, "open_dataset", lambda *_, **__: made)
    flags = ["--model-dir", trained.model_dir, "--checkpoint", f"{trained.model_dir}/model.ckpt-6"]
    assert command("evaluate", *flags, "--predictions", "predictions.csv")[0] == 0
    header, *rows = rows_of(tmp_path / "predictions.csv")
    assert header[:2] == ["example", "true_class"]
    assert [row[:2] for row in rows] == [["0", "bright"], ["1", "dark"], ["2", "dark"], ["3", "bright"], ["4", "dark"]]


@pytest.mark.slow
def test_a_run_without_classes_has_only_estimator_metrics_ranked_by_loss(command, own_flags, tmp_path):
    flags = [*own_flags, "--model-dir", "run", "--max-steps", "6", "--save-checkpoints-steps", "2"]
    assert command(*flags)[0] == 0
    _, output, _ = command("evaluate", "--model-dir", "run", "--all", "--json")
    entries = json.loads(output)
    assert [entry["step"] for entry in entries] == [6, 4, 2, 0]
    assert [list(entry["metrics"]) for entry in entries] == [["loss"]] * 4
    assert not any("classification" in entry for entry in entries)
    _, output, _ = command("evaluate", "--model-dir", "run")
    assert [line.split() for line in output.splitlines()] == [
        ["checkpoint", "step", "loss"],
        ["-" * 12, "-" * 6, "-" * 6],
        ["model.ckpt-6", "6", f"{entries[0]['metrics']['loss']:.4f}"],
    ]


def test_predictions_csv_belongs_to_the_evaluation_that_compare_shows(settings, tmp_path):
    def predictions_after(step, predicted, **about):
        labels, outputs = np.array([0, 1]), np.eye(2)[predicted]
        result = tasks.named("classification").result(settings.class_names, labels, outputs)
        evaluated = evaluation.Evaluated({"loss": 0.5, "global_step": step}, labels, outputs, result)
        evaluation.keep(settings, None, tmp_path, f"model.ckpt-{step}", evaluated, **about)
        classes = [each.predicted_class for each in predictions_file.read(tmp_path).values()]
        return [settings.class_names.index(name) for name in classes]

    afterwards = {"name": evaluation.AFTERWARDS}
    assert predictions_after(0, [1, 1], **afterwards) == [1, 1]
    assert predictions_after(6, [0, 1], **afterwards) == [0, 1]
    assert predictions_after(6, [0, 0], **afterwards, images="other") == [0, 1]
    assert predictions_after(8, [1, 0], name="final") == [1, 0]
    assert predictions_after(0, [0, 0], **afterwards) == [1, 0]
    (tmp_path / predictions_file.NAME).write_text("file,true_class,predicted_class,bright,dark\n")  # by --predictions
    assert predictions_after(8, [0, 1], **afterwards) == [0, 1]


def test_metrics_that_are_not_finite_are_null_in_the_log(tmp_path):
    metrics = {"loss": np.float32("nan"), "auc": np.float32(0.5), "recalls": np.array([1.0, np.inf]), "global_step": 3}
    entry = evaluations.entry_of(f"{tmp_path}/model.ckpt-3", metrics)
    evaluations.append(tmp_path, entry)
    assert log(tmp_path) == [entry]
    assert (entry["checkpoint"], entry["step"]) == ("model.ckpt-3", 3)
    assert entry["metrics"] == {"loss": None, "auc": 0.5, "recalls": [1.0, None]}


# Tells at its end whether TensorFlow came along.
PROGRAM = """
import sys
from estimator_train.app.cli import main
try:
    main()
finally:
    print("tensorflow" in sys.modules)
"""

LOGITS = """
import tf_keras as keras

def build(image_size):
    model = keras.Sequential([keras.Input([*image_size, 3]), keras.layers.Flatten()])
    model.add(keras.layers.Dense(2, bias_initializer=keras.initializers.Constant(5)))
    model.compile("sgd", keras.losses.CategoricalCrossentropy(from_logits=True))
    return model
"""


@pytest.mark.slow
def test_a_model_without_probabilities_has_only_the_estimators_metrics(command, settings, tmp_path):
    (tmp_path / "logits.py").write_text(LOGITS)
    own = dataclasses.replace(settings, model=f"{tmp_path}/logits.py:build")
    run_file.save(tmp_path / "run", dataclasses.asdict(own))
    build = runpy.run_path(tmp_path / "logits.py")["build"]
    example = tf.zeros([1, *settings.image_size, 3]), tf.constant([[0.0, 1.0]])
    estimator = model_to_estimator(build(settings.image_size), model_dir=tmp_path / "run")
    estimator.train(lambda: tf.data.Dataset.from_tensors(example))
    code, output, errors = command("evaluate", "--model-dir", "run", "--trust-run", "--predictions", "predictions.csv")
    assert code == 1 and not (tmp_path / "predictions.csv").exists()
    assert output.split()[:4] == ["checkpoint", "step", "loss", "-" * 12]
    assert "there are no metrics per class: the model gives" in errors
    assert "not probabilities; end it with a softmax or sigmoid" in errors


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--json", "--csv"], "--json and --csv exclude each other; give one"),
        (["--all", "--checkpoint", "6"], "--checkpoint and --all exclude each other; give one"),
        (["--all", "--predictions", "p.csv"], "--predictions is for a single checkpoint; leave out --all"),
        (["--predictions", "."], "is a directory"),
        (["--predictions", "nowhere/p.csv"], "--predictions nowhere/p.csv: there is no folder nowhere"),
    ],
)
def test_wrong_flags_are_one_line(command, trained, flags, message):
    code, output, errors = command("evaluate", "--model-dir", trained.model_dir, *flags)
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert message in errors


def test_a_run_that_cannot_be_written_to_is_evaluated_without_a_trace(command, trained, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in Path(trained.model_dir).rglob("*")}
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    code, output, errors = command("evaluate", "--model-dir", trained.model_dir)
    assert (code, "bright" in output) == (0, True)
    line = f"no permission to write in {trained.model_dir}: the evaluation is not kept"
    assert f"estimator_train: {line}" in errors.splitlines()
    assert before == {path: path.stat().st_mtime_ns for path in Path(trained.model_dir).rglob("*")}


def test_a_report_of_a_run_that_cannot_be_written_to_is_refused_at_once(command, trained, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    code, output, errors = command("report", "--model-dir", trained.model_dir)
    place = f"--model-dir {trained.model_dir}: no permission to write in {trained.model_dir}"
    assert (code, output, errors) == (2, "", f"estimator_train: {place}\n")


def test_predictions_need_classes(command, settings, tmp_path):
    own = dataclasses.replace(settings, dataset=None, input_fn="a:b", eval_input_fn="a:b", class_names=())
    run_file.save(tmp_path / "run", dataclasses.asdict(own))
    code, _, errors = command("evaluate", "--model-dir", "run", "--predictions", "p.csv", "--trust-run")
    assert code == 2
    assert errors == "estimator_train: --predictions needs classes, and the run in run has none\n"


def test_classes_other_than_the_runs_are_refused_before_tensorflow_loads(settings, scans, tmp_path):
    shutil.copytree(scans, tmp_path / "changed")
    (tmp_path / "changed" / "dark").rename(tmp_path / "changed" / "grey")
    changed = dataclasses.replace(settings, data_dir=str(tmp_path / "changed"))
    run_file.save(tmp_path / "run", dataclasses.asdict(changed))
    command = [sys.executable, "-c", PROGRAM, "evaluate", "--model-dir", "run"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (result.returncode, result.stdout) == (2, "False\n")
    assert result.stderr == (
        f"estimator_train: the run in run knows the classes 'bright', 'dark', but {tmp_path}/changed has 'bright', "
        "'grey'; evaluate on the same classes\n"
    )
