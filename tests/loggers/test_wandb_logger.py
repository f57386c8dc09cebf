"""WandbLogger: a run in W&B's offline folder."""

import json

import pytest

from estimator_train.loggers import WandbLogger

wandb = pytest.importorskip("wandb")


def test_an_offline_run_has_params_metrics_and_files_and_keeps_its_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_MODE", "WANDB_DIR", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "run" / "best").mkdir(parents=True)
    (tmp_path / "run" / "best" / "model").write_text("weights")
    for epochs in (1, 2):
        logger = WandbLogger(tmp_path / "run")
        logger.log_params({"epochs": epochs, "model": "vgg16"})
        logger.log_metrics(10, {"loss": 0.5})
        logger.log_file(tmp_path / "run" / "best")
        assert dict(wandb.run.config) == {"epochs": epochs, "model": "vgg16"}
        assert (wandb.run.name, wandb.run.project) == ("run", "estimator_train")
        assert dict(wandb.run.summary)["global_step"] == 10
        logger.close()
    kept = json.loads((tmp_path / "run" / "loggers.json").read_text())["wandb"]
    runs = list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert {path.name for path in runs} == {f"run-{kept}.wandb"}
    assert all((path.parent / "files" / "best" / "model").read_text() == "weights" for path in runs)
