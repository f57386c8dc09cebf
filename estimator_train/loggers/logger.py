"""Logger: the interface of loggers."""

import numbers
import os
from collections.abc import Mapping
from typing import Any


class Logger:
    """Base class of loggers, which get the metrics of training from `LoggerHook`, of evaluations from `LoggerListener`.

    Subclasses must implement `log_metrics`; the other methods are optional.

        >>> class PrintingLogger(et.loggers.Logger):
        ...     def log_metrics(self, step, metrics):
        ...         print(step, metrics)
        >>> PrintingLogger().log_evaluation({"loss": 0.25, "global_step": 100})
        100 {'val_loss': 0.25}
    """

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Records the settings of the training, a dict keyed by name."""

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Records `metrics` at a global step. The names of evaluation metrics begin with `val_`."""
        raise NotImplementedError

    def log_evaluation(self, metrics: Mapping[str, Any], *, prefix: str = "val_") -> None:
        """Records the result of `Estimator.evaluate`, prefixing names with `prefix`.

            logger.log_evaluation(estimator.evaluate(eval_input_fn))

        Values that are not scalars are skipped.
        """
        scalars = {
            f"{prefix}{name}": float(value)
            for name, value in metrics.items()
            if name != "global_step" and isinstance(value, numbers.Real)
        }
        self.log_metrics(int(metrics["global_step"]), scalars)

    def log_file(self, path: str | os.PathLike[str]) -> None:
        """Stores a copy of a file or directory."""

    def close(self, *, succeeded: bool = True) -> None:
        """Ends logging; `succeeded` says whether the training was completed."""
