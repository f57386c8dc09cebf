"""The newest checkpoint of a run is found without TensorFlow."""

import pytest

from estimator_train.app.runs.run_file import newest_checkpoint


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"model_checkpoint_path:"])
def test_the_newest_checkpoint_is_found_if_its_file_is_lost(content, tmp_path):
    for name in ("model.ckpt-9.index", "model.ckpt-10.index", "model.ckpt-11.data-00000-of-00001"):
        (tmp_path / name).touch()
    if content is not None:
        (tmp_path / "checkpoint").write_bytes(content)
    assert newest_checkpoint(tmp_path) == "model.ckpt-10"
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"\n')
    assert newest_checkpoint(tmp_path) == "model.ckpt-9"


def test_an_empty_or_absent_directory_has_no_checkpoint(tmp_path):
    assert newest_checkpoint(tmp_path) is None and newest_checkpoint(tmp_path / "absent") is None
