"""MLflowLogger: a run in MLflow."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from estimator_train.loggers.logger import Logger
from estimator_train.loggers.run_ids import keep_run_id, run_id

_EXPERIMENT = "estimator_train"


class MLflowLogger(Logger):
    """Logs to a run of MLflow, which is the active one: a program's own `mlflow.log_metric` goes to the same run.

    MLflow's environment variables count: without `MLFLOW_TRACKING_URI` runs go to the folder `mlruns` of the working
    directory, without `MLFLOW_EXPERIMENT_NAME` to the experiment `estimator_train`. The ID of the run is kept in
    `folder`, and a training that is resumed there logs to the same run. MLflow keeps the first value of a parameter.

        logger = et.loggers.MLflowLogger("runs/oct2017")
        logger.log_params({"learning_rate": 1e-3})
        logger.log_metrics(100, {"loss": 0.31})
        logger.close()

    Args:
      folder: the folder of the run, whose name is the run's at MLflow.

    Raises:
      ImportError: MLflow is not installed.
      ValueError: MLflow refuses to open the run.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._mlflow = mlflow = importlib.import_module("mlflow")
        if not mlflow.is_tracking_uri_set():
            mlflow.set_tracking_uri(Path("mlruns").absolute().as_uri())
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 asks for it
        try:
            run = mlflow.start_run(run_id(folder, "mlflow"), _experiment_id(mlflow), Path(folder).absolute().name)
        except mlflow.exceptions.MlflowException as error:
            raise ValueError(f"MLflow does not open a run for {folder}: {error}") from error
        keep_run_id(folder, "mlflow", run.info.run_id)
        self._params = run.data.params

    def log_params(self, params: Mapping[str, Any]) -> None:
        self._mlflow.log_params({name: value for name, value in params.items() if name not in self._params})

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        self._mlflow.log_metrics(dict(metrics), step=step)

    def log_file(self, path: str | os.PathLike[str]) -> None:
        if os.path.isdir(path):
            self._mlflow.log_artifacts(path, Path(path).name)
        else:
            self._mlflow.log_artifact(path)

    def close(self, *, succeeded: bool = True) -> None:
        self._mlflow.end_run("FINISHED" if succeeded else "FAILED")


def _experiment_id(mlflow):
    """The ID of the experiment, which is made if it is missing; None: MLflow reads it in its environment variables."""
    if {"MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"} & os.environ.keys():
        return None
    experiment = mlflow.get_experiment_by_name(_EXPERIMENT)
    return experiment.experiment_id if experiment else mlflow.create_experiment(_EXPERIMENT)
