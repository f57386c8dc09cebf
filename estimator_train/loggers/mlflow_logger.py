"""MLflowLogger: logs to a run in MLflow."""

import importlib
import os
import re
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from estimator_train.loggers.logger import Logger
from estimator_train.loggers.run_ids import keep_run_id, run_id

_EXPERIMENT = "estimator_train"


class MLflowLogger(Logger):
    """Logs to an MLflow run and makes it the active one, so your own calls of `mlflow.log_metric` go to it, too.

    MLflow's environment variables are respected. The default for `MLFLOW_TRACKING_URI` is `mlruns` in the working
    directory, for `MLFLOW_EXPERIMENT_NAME` it is `estimator_train`. The run's ID is stored in `folder`, so a resumed
    training logs to the same run. MLflow does not change a parameter once it is logged.

        logger = et.loggers.MLflowLogger("runs/oct2017")
        logger.log_metrics(100, {"loss": 0.31})

    The MLflow run has the name of `folder`. Raises ImportError if MLflow is not installed, and ValueError if it fails
    to open the run.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._mlflow = mlflow = importlib.import_module("mlflow")
        if not mlflow.is_tracking_uri_set():
            mlflow.set_tracking_uri(Path("mlruns").absolute().as_uri())
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 requires it
        try:
            run = mlflow.start_run(run_id(folder, "mlflow"), _experiment_id(mlflow), Path(folder).absolute().name)
        except mlflow.exceptions.MlflowException as error:
            reason = re.sub(r"//\S*@", "//", str(error))  # without the password of MLFLOW_TRACKING_URI
            raise ValueError(f"MLflow could not open a run for {folder}: {reason}") from error
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


def _experiment_id(mlflow: types.ModuleType) -> str | None:
    """Returns the experiment's ID, creating it if missing; None if MLflow's environment variables name one."""
    if {"MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"} & os.environ.keys():
        return None
    experiment = mlflow.get_experiment_by_name(_EXPERIMENT)
    return experiment.experiment_id if experiment else mlflow.create_experiment(_EXPERIMENT)
