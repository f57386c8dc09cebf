"""IDs of a run in experiment trackers."""

import pytest

from estimator_train.loggers.run_ids import keep_run_id, run_id


def test_each_tracker_has_its_own(tmp_path):
    assert run_id(tmp_path / "run", "mlflow") is None
    keep_run_id(tmp_path / "run", "mlflow", "a")
    keep_run_id(tmp_path / "run", "wandb", "b")
    assert (run_id(tmp_path / "run", "mlflow"), run_id(tmp_path / "run", "wandb")) == ("a", "b")


@pytest.mark.parametrize(
    ("text", "fault"), [("{", "cannot be read"), ("[]", "no run ID"), ('{"mlflow": 3}', "no run ID")]
)
def test_a_damaged_file_is_named(tmp_path, text, fault):
    (tmp_path / "loggers.json").write_text(text)
    with pytest.raises(ValueError, match=rf"loggers.json .*{fault}.*delete it to start a new run in the trackers"):
        run_id(tmp_path, "mlflow")
