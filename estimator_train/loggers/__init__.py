"""Loggers: keep the parameters, metrics and files of a training, as a CSV file or in an experiment tracker."""

from __future__ import annotations

import os
from collections.abc import Callable

from estimator_train.host import packages
from estimator_train.loggers.csv_logger import CSVLogger
from estimator_train.loggers.logger import Logger
from estimator_train.loggers.mlflow_logger import MLflowLogger
from estimator_train.loggers.wandb_logger import WandbLogger

__all__ = ["CSVLogger", "Logger", "MLflowLogger", "WandbLogger", "check_installed", "open_logger"]

NAMES = ("csv", "mlflow", "wandb")
_PACKAGES = {"mlflow": "mlflow-skinny", "wandb": "wandb"}  # what to install for the module of that name


def open_logger(name: str, folder: str | os.PathLike[str]) -> Logger:
    """Returns the logger of that name, one of `NAMES`, for the run in `folder`.

        logger = et.loggers.open_logger("csv", "runs/oct2017")

    Raises:
      ImportError, ValueError: as the logger does.
    """
    kinds: dict[str, Callable[[str | os.PathLike[str]], Logger]]
    kinds = {"csv": CSVLogger, "mlflow": MLflowLogger, "wandb": WandbLogger}
    return kinds[name](folder)


def check_installed(name: str) -> None:
    """Looks whether the package that a logger needs is installed, without importing it.

        et.loggers.check_installed("mlflow")

    Raises:
      ValueError: it is not; the message has the command that installs it.
    """
    if name in _PACKAGES:
        packages.check_installed(name, _PACKAGES[name])
