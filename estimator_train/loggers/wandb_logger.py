"""WandbLogger: logs to a run in Weights & Biases."""

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from estimator_train.loggers.logger import Logger
from estimator_train.loggers.run_ids import keep_run_id, run_id


class WandbLogger(Logger):
    """Logs to a Weights & Biases run: offline, in the directory `wandb`, unless `WANDB_MODE=online` is set.

    `wandb sync` uploads offline runs. W&B's environment variables are respected. The default for `WANDB_DIR` is the
    working directory, for `WANDB_PROJECT` it is `estimator_train`. The run's ID is stored in `folder`, so a resumed
    training logs to the same run. Charts have `global_step` as their x axis.

        logger = et.loggers.WandbLogger("runs/oct2017")
        logger.log_metrics(100, {"loss": 0.31})

    The W&B run has the name of `folder`. Raises ImportError if W&B is not installed, and ValueError if it fails to open
    the run.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        wandb = importlib.import_module("wandb")
        earlier = run_id(folder, "wandb")
        mode = os.environ.get("WANDB_MODE", "offline")
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "estimator_train"),
                name=Path(folder).absolute().name,
                id=earlier,
                resume="must" if earlier and mode == "online" else None,
                mode=mode,
                settings=wandb.Settings(silent=True, symlink=False),  # reports may be overwritten
            )
        except (wandb.errors.Error, ValueError) as error:
            raise ValueError(f"W&B could not open a run for {folder}: {error}") from error
        self._run.define_metric("*", step_metric="global_step")  # W&B's own steps cannot go back to a checkpoint
        keep_run_id(folder, "wandb", self._run.id)

    def log_params(self, params: Mapping[str, Any]) -> None:
        self._run.config.update(dict(params), allow_val_change=True)

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({"global_step": step, **metrics})

    def log_file(self, path: str | os.PathLike[str]) -> None:
        path = Path(path).absolute()
        for file in sorted(path.glob("**/*")) if path.is_dir() else [path]:
            if file.is_file():
                self._run.save(str(file), base_path=str(path.parent), policy="now")

    def close(self, *, succeeded: bool = True) -> None:
        self._run.finish(exit_code=int(not succeeded))
