"""Paths of model directories, and the checkpoints in them by their names."""

import os

import pytest

from estimator_train._engine.host import model_dirs


def test_a_relative_path_is_made_absolute_and_others_stay_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert model_dirs.absolute("runs/a/") == str(tmp_path / "runs" / "a")
    for path in ("/runs/a/", "gs://bucket/a", "hdfs://host/a", ""):
        assert model_dirs.absolute(path) == path


def test_a_path_through_a_link_leads_where_the_link_leads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    for path in ("link/../a", str(tmp_path / "link" / ".." / "a")):
        assert model_dirs.absolute(path) == str(tmp_path.resolve() / "elsewhere" / "a")


def test_a_path_that_is_not_utf_8_is_refused():
    with pytest.raises(ValueError, match=r"model_dir '/runs/\\udcff' is not UTF-8"):
        model_dirs.absolute("/runs/\udcff")


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?", "a\\b"])
def test_a_path_that_tensorflow_takes_for_a_pattern_is_refused(name):
    with pytest.raises(ValueError, match="which TensorFlow takes for a pattern; rename it"):
        model_dirs.absolute(os.path.join("/runs", name))


def test_checkpoints_are_found_by_index_file_and_ordered_by_step():
    names = [
        "model.ckpt-10.index",
        "model.ckpt-9.index",
        "model.ckpt-9.data-00000-of-00001",
        "checkpoint",
        "pretrained-11.index",
    ]
    assert model_dirs.checkpoints_among(names) == ["model.ckpt-9", "model.ckpt-10"]
