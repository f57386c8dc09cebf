"""The interface of a logger."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping
from typing import Any


class Logger:
    """Keeps the numbers of a training: a `LoggerHook` gives it those of its steps, a `LoggerExporter` evaluations.

    A subclass implements `log_metrics`, and whatever else it has a place for.

        class PrintingLogger(et.loggers.Logger):
            def log_metrics(self, step, metrics):
                print(step, metrics)
    """

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Keeps the settings of the training, by their names."""

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keeps `metrics` at a global step. Names of the metrics of evaluations begin with `val_`."""
        raise NotImplementedError

    def log_evaluation(self, metrics: Mapping[str, Any]) -> None:
        """Logs what `Estimator.evaluate` returned, with `val_` before each name; what is no single number is left out.

        logger.log_evaluation(estimator.evaluate(eval_input_fn))
        """
        scalars = {
            f"val_{name}": float(value)
            for name, value in metrics.items()
            if name != "global_step" and isinstance(value, numbers.Real)
        }
        self.log_metrics(int(metrics["global_step"]), scalars)

    def log_file(self, path: str | os.PathLike[str]) -> None:
        """Keeps a copy of a file or of a folder."""

    def close(self, *, succeeded: bool = True) -> None:
        """Ends logging. `succeeded`: whether the training came to its end."""
