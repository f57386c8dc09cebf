"""MLflowLogger: a run in MLflow's file store."""

import pytest

from estimator_train.loggers import MLflowLogger

mlflow = pytest.importorskip("mlflow")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """MLflow without anybody's settings, in a temporary directory; returns a function that lists its runs."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.delenv(name, raising=False)
    mlflow.set_tracking_uri(None)
    yield lambda: mlflow.search_runs(experiment_names=["estimator_train"], output_format="list")
    mlflow.set_tracking_uri(None)


def test_params_metrics_and_files_are_in_the_file_store(store, tmp_path):
    (tmp_path / "run" / "best").mkdir(parents=True)
    (tmp_path / "run" / "best" / "model").write_text("weights")
    (tmp_path / "run" / "report.html").write_text("page")
    logger = MLflowLogger(tmp_path / "run")
    logger.log_params({"model": "vgg16", "image_size": (2, 3)})
    logger.log_metrics(10, {"loss": 0.5})
    logger.log_metrics(20, {"loss": 0.25})
    logger.log_file(tmp_path / "run" / "report.html")
    logger.log_file(tmp_path / "run" / "best")
    logger.close()
    (run,) = store()
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert run.data.params == {"model": "vgg16", "image_size": "(2, 3)"}
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
    assert [(point.step, point.value) for point in history] == [(10, 0.5), (20, 0.25)]
    assert sorted(path.name for path in (tmp_path / "mlruns").glob(f"*/{run.info.run_id}/artifacts/**/*")) == [
        "best",
        "model",
        "report.html",
    ]


def test_a_resumed_training_continues_its_run_and_keeps_its_params(store, tmp_path):
    for epochs, succeeded in ((1, False), (2, True)):
        logger = MLflowLogger(tmp_path / "run")
        logger.log_params({"epochs": epochs})
        logger.log_metrics(epochs, {"loss": 1.0})
        logger.close(succeeded=succeeded)
    (run,) = store()
    assert (run.info.status, run.data.params) == ("FINISHED", {"epochs": "1"})


def test_the_password_of_the_server_is_in_no_error(store, tmp_path, monkeypatch):
    def start_run(*arguments):
        raise mlflow.exceptions.MlflowException("API request to https://me:pa@s/s:w@host:5000/api failed")

    monkeypatch.setattr(mlflow, "start_run", start_run)
    with pytest.raises(ValueError, match="API request to https://host:5000/api failed$"):
        MLflowLogger(tmp_path)


def test_a_run_that_mlflow_has_lost_is_named(store, tmp_path):
    (tmp_path / "loggers.json").write_text('{"mlflow": "0123456789abcdef0123456789abcdef"}')
    with pytest.raises(ValueError, match=r"MLflow could not open a run for .*: Run .0123456789abcdef"):
        MLflowLogger(tmp_path)
