"""--log and --callbacks: where the numbers of a training go, and what else it calls."""

import csv
import json

import pytest

CALLBACKS = """
import tf_keras as keras

seen = keras.callbacks.History()

def none():
    pass

def history():
    return [keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (epoch + 1)), seen]
"""


@pytest.fixture
def flags(scans):
    """Training small_cnn on 12 images, 3 steps an epoch."""
    return [
        "--dataset",
        "images",
        "--data-dir",
        scans,
        "--model",
        "small_cnn",
        "--image-size",
        "16",
        "--batch-size",
        "4",
    ]


def lines_of(path):
    with open(path) as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_the_csv_has_a_line_an_epoch_and_callbacks_change_the_training(command, flags, tmp_path):
    (tmp_path / "mine.py").write_text(CALLBACKS)
    given = [*flags, "--model-dir", tmp_path / "run", "--log", "csv,tensorboard", "--callbacks", "mine.py:history"]
    code, output, _ = command(*given, "--seed", "1", "--epochs", "2")
    assert code == 0
    (steps,) = [line for line in output.splitlines() if line.startswith("steps ")]
    per_epoch = int(steps.split()[-2])  # the line ends with its unit
    lines = lines_of(tmp_path / "run" / "metrics.csv")
    assert [(float(line["epoch"]), int(line["step"])) for line in lines] == [(1, per_epoch), (2, 2 * per_epoch)]
    assert [float(line["learning_rate"]) for line in lines] == pytest.approx([0.01, 0.005])
    evaluation = json.loads((tmp_path / "run" / "evaluations.jsonl").read_text())
    assert float(lines[-1]["val_loss"]) == pytest.approx(evaluation["metrics"]["loss"])
    assert not lines[0]["val_loss"]
    run = json.loads((tmp_path / "run" / "run.json").read_text())["training"]
    assert run["log"] == ["csv"] and run["callbacks"] == str(tmp_path / "mine.py:history")

    code, *_ = command("--model-dir", tmp_path / "run", "--resume", "--epochs", "3")
    assert code == 0
    lines = lines_of(tmp_path / "run" / "metrics.csv")
    assert [float(line["epoch"]) for line in lines] == [1, 2, 3]
    assert float(lines[-1]["learning_rate"]) == pytest.approx(0.01 / 3)


def test_what_is_no_callback_is_one_line(command, own_flags, tmp_path):
    (tmp_path / "mine.py").write_text(CALLBACKS)
    code, _, errors = command(*own_flags, "--model-dir", "run", "--max-steps", 2, "--callbacks", "mine.py:none")
    assert code == 2
    place = tmp_path / "mine.py:none"
    assert errors.splitlines()[-1] == (
        f"estimator_train: --callbacks {place}: callbacks must be Keras callbacks, given: None"
    )


@pytest.mark.slow
def test_mlflow_gets_params_metrics_the_report_and_the_best_checkpoint(command, own_flags, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    mlflow.set_tracking_uri(None)
    flags = [*own_flags, "--model-dir", tmp_path / "run", "--evaluate-every", 2, "--keep-best", "--log", "csv,mlflow"]
    assert command(*flags, "--max-steps", 8)[0] == 0
    (run,) = mlflow.search_runs(experiment_names=["estimator_train"], output_format="list")
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "val_loss")
    mlflow.set_tracking_uri(None)
    assert run.info.status == "FINISHED"
    assert (run.data.params["evaluate_every"], run.data.params["log"]) == ("2", "('csv', 'mlflow')")
    evaluations = map(json.loads, (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines())
    assert [(point.step, point.value) for point in history] == [
        (entry["step"], entry["metrics"]["loss"]) for entry in evaluations
    ]
    assert [int(line["step"]) for line in lines_of(tmp_path / "run" / "metrics.csv")] == [2, 4, 6, 8]
    (artifacts,) = tmp_path.glob(f"mlruns/*/{run.info.run_id}/artifacts")
    kept = {path.relative_to(artifacts).as_posix() for path in artifacts.rglob("*") if path.is_file()}
    assert {"run.json", "report.html", "best_checkpoint/model.ckpt-6.index"} <= kept
