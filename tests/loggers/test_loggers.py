"""Checks for the packages that loggers need."""

import pytest

from estimator_train import loggers


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    loggers.check_installed("csv")
    monkeypatch.delitem(__import__("sys").modules, "wandb", raising=False)
    (tmp_path / "wandb").mkdir()  # of runs that W&B has kept; Python takes it for a package
    with pytest.raises(ValueError, match=r"^wandb is not installed: pip install wandb$"):
        loggers.check_installed("wandb")


def test_a_logger_of_ones_own_needs_to_log_metrics_alone(tmp_path):
    class Printing(loggers.Logger):
        def log_metrics(self, step, metrics):
            logged.append((step, metrics))

    logged = []
    logger = Printing()
    logger.log_params({"a": 1})
    logger.log_evaluation({"global_step": 3, "loss": 1})
    logger.log_file(tmp_path)
    logger.close()
    assert logged == [(3, {"val_loss": 1.0})]
