"""--checkpoint selects a checkpoint that is there, and intact as far as its files tell."""

import json

import pytest
from pretended_checkpoints import pretend

from estimator_train.app.errors import SettingError
from estimator_train.app.running.selected_checkpoint import checkpoint_prefix
from estimator_train.app.runs.stored_run import StoredRun


@pytest.fixture
def run(tmp_path):
    """A run that keeps its best checkpoint, whose data is gone."""
    about = {"settings": {"model": "small_cnn"}, "training": {"keep_best": True}}
    (tmp_path / "run.json").write_text(json.dumps(about))
    pretend(tmp_path, 4, 8)
    pretend(tmp_path / "export" / "best_checkpoint", 4)
    (tmp_path / "export" / "best_checkpoint" / "model.ckpt-4.data-00000-of-00001").unlink()
    return StoredRun(tmp_path)


@pytest.mark.parametrize("selected", [None, "best"])
def test_a_damaged_best_checkpoint_names_the_latest(selected, run):
    damaged = rf"{run.best}, kept by keep_best, is damaged: there is no {run.best}\.data.*; checkpoint=latest uses"
    with pytest.raises(SettingError, match=damaged):
        checkpoint_prefix(run, selected)


def test_others_are_selected_beside_a_damaged_best_checkpoint(run):
    assert checkpoint_prefix(run, "latest") is None
    assert checkpoint_prefix(run, "4") == f"{run.model_dir}/model.ckpt-4"
