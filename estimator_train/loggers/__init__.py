"""Loggers, which record the parameters, metrics and files of a training in a CSV file or an experiment tracker."""

import os
from collections.abc import Callable

from estimator_train._engine.host import packages
from estimator_train.loggers.csv_logger import CSVLogger
from estimator_train.loggers.logger import Logger
from estimator_train.loggers.mlflow_logger import MLflowLogger
from estimator_train.loggers.wandb_logger import WandbLogger

__all__ = ["CSVLogger", "Logger", "MLflowLogger", "WandbLogger", "check_installed", "open_logger"]

NAMES = ("csv", "mlflow", "wandb")
_PACKAGES = {"mlflow": "mlflow-skinny", "wandb": "wandb"}  # the package that provides each module


def open_logger(name: str, folder: str | os.PathLike[str]) -> Logger:
    """Creates the logger called `name` for the run in the directory `folder`.

        >>> logger = et.loggers.open_logger("csv", "runs/oct2017")
        >>> logger.log_metrics(100, {"loss": 0.31})

    The names are "csv", "mlflow" and "wandb". Raises what the logger's class does.
    """
    kinds: dict[str, Callable[[str | os.PathLike[str]], Logger]]
    kinds = {"csv": CSVLogger, "mlflow": MLflowLogger, "wandb": WandbLogger}
    return kinds[name](folder)


def check_installed(name: str) -> None:
    """Checks that the package that a logger needs is installed, without importing it.

        >>> et.loggers.check_installed("csv")  # needs no package

    Raises ValueError if it is not installed, with the command that installs it.
    """
    if name in _PACKAGES:
        packages.check_installed(name, _PACKAGES[name])
