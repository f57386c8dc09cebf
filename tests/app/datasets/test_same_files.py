"""Files that two sides share are found by their contents, at the price of few looks."""

import os

import pytest

from estimator_train.app.datasets import same_files


@pytest.fixture
def files(tmp_path):
    """Two sides of files: one copied, one under another name, one a link, one of the same size and end, one empty."""
    texts = {"1": "a" * 9000, "2": "b" * 9000, "3": "c", "4": "d" * 5000 + "a" * 5000, "5": ""}
    for side in ("train", "val"):
        (tmp_path / side).mkdir()
    for name, text in texts.items():
        (tmp_path / "train" / name).write_text(text)
    (tmp_path / "val" / "1").write_text(texts["1"])
    (tmp_path / "val" / "renamed").write_text(texts["2"])
    (tmp_path / "val" / "link").symlink_to(tmp_path / "train" / "3")
    (tmp_path / "val" / "4").write_text("e" * 5000 + "a" * 5000)
    (tmp_path / "val" / "5").touch()
    return [sorted(map(str, (tmp_path / side).iterdir())) for side in ("val", "train")]


def test_copies_links_and_renamed_files_are_the_same(files):
    assert same_files.same_files(*files) == 3
    assert same_files.same_files(files[0][:2], files[0]) == 2
    assert same_files.same_files(["gone.png"], files[1]) == same_files.same_files([], files[1]) == 0
    assert same_files.same_files(["gs://bucket/1.png"], ["gs://bucket/1.png"]) == 0


def test_of_many_files_only_those_of_one_name_are_looked_at(files, monkeypatch):
    monkeypatch.setattr(same_files, "_MOST", 5)
    asked, stat = [], os.stat
    monkeypatch.setattr(os, "stat", lambda path: asked.append(os.path.basename(path)) or stat(path))
    assert same_files.same_files(*files) == 1
    assert {*asked} == {"1", "4", "5"}
