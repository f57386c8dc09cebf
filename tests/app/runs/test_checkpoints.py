"""The checkpoints of a run are found without TensorFlow: the newest whose files are whole, and the best."""

import pytest
from pretended_checkpoints import pretend

from estimator_train.app.runs import checkpoints


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"model_checkpoint_path:"])
def test_the_newest_checkpoint_is_found_if_its_file_is_lost(content, tmp_path):
    pretend(tmp_path, 9, 10)
    (tmp_path / "model.ckpt-11.data-00000-of-00001").touch()
    if content is None:
        (tmp_path / "checkpoint").unlink()
    else:
        (tmp_path / "checkpoint").write_bytes(content)
    assert checkpoints.newest(tmp_path) == "model.ckpt-10"
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"\n')
    assert checkpoints.newest(tmp_path) == "model.ckpt-9"


def test_an_empty_or_absent_directory_has_no_checkpoint(tmp_path):
    assert checkpoints.newest(tmp_path) is None and checkpoints.newest(tmp_path / "absent") is None


def test_a_damaged_or_absent_newest_checkpoint_is_passed_over(tmp_path):
    pretend(tmp_path, 2, 10, 4, 6)  # training has gone back, to the end of an epoch that went better
    (tmp_path / "model.ckpt-6.data-00000-of-00001").unlink()
    assert checkpoints.newest(tmp_path) == "model.ckpt-4"
    (tmp_path / "model.ckpt-4.index").write_bytes(b"")
    assert checkpoints.newest(tmp_path) == "model.ckpt-10"
    for path in tmp_path.glob("model.ckpt-10.*"):
        path.unlink()
    assert checkpoints.newest(tmp_path) == "model.ckpt-2"
    assert checkpoints.listed(tmp_path) == [f"model.ckpt-{step}" for step in (2, 10, 4, 6)]


def test_a_run_whose_checkpoints_are_all_damaged_is_refused(tmp_path):
    pretend(tmp_path, 5, 8)
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{tmp_path}/model.ckpt-8"\n')
    (tmp_path / "model.ckpt-8.index").unlink()
    mend = f"damaged, the newest is {tmp_path}/model.ckpt-8; delete {tmp_path}/checkpoint to resume from {tmp_path}/mod"
    with pytest.raises(ValueError, match=mend):
        checkpoints.newest(tmp_path)
    for path in tmp_path.glob("model.ckpt-*"):
        path.unlink()
    with pytest.raises(ValueError, match="restore a copy, or use another model_dir"):
        checkpoints.newest(tmp_path)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-0"\n')
    assert checkpoints.newest(tmp_path) is None  # nothing is lost
