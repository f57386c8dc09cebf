"""Local and remote paths behind one interface; ram:// stands for the remote file systems."""

import os
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from estimator_train._engine.host.paths import RemotePath, absolute, as_path, file_finder, local, why_not_utf_8


@pytest.fixture
def folder():
    """A folder of two files and a folder below, in TensorFlow's memory."""
    tf.io.gfile.makedirs("ram://paths/below")
    for name, text in [("b.txt", "two"), ("a.csv", "one\n"), ("below/c.txt", "three")]:
        with tf.io.gfile.GFile(f"ram://paths/{name}", "w") as file:
            file.write(text)
    yield as_path("ram://paths")
    tf.io.gfile.rmtree("ram://paths")


def test_local_paths_are_those_of_pathlib(tmp_path):
    assert as_path(tmp_path, "x") == tmp_path / "x" and isinstance(as_path("x"), Path)
    assert absolute("x") == os.path.abspath("x") and absolute("gs://b/x") == "gs://b/x"
    assert local("x") == Path("x")
    with pytest.raises(ValueError, match="gs://b/x is remote; use a local directory"):
        local("gs://b/x")


def test_the_locale_is_named_if_a_name_cannot_be_read_in_it(monkeypatch):
    assert why_not_utf_8("scäns") is None
    assert why_not_utf_8("sc\udce4ns") == "is not UTF-8, which TensorFlow needs; rename it"
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    reason = "has letters that the locale's encoding, ascii, lacks; set LC_ALL=C.UTF-8, without PYTHONUTF8=0"
    assert why_not_utf_8("sc\udcc3\udca4ns") == reason


def test_a_remote_folder_is_read_as_by_pathlib(folder):
    assert isinstance(folder, RemotePath) and str(folder / "b.txt") == "ram://paths/b.txt"
    assert folder.exists() and folder.is_dir() and not folder.is_file()
    assert sorted(path.name for path in folder.iterdir()) == ["a.csv", "b.txt", "below"]
    assert [str(path) for path in folder.glob("*.txt")] == ["ram://paths/b.txt"]
    file = folder / "below" / "c.txt"
    assert (file.name, file.parent.name, file.is_file(), file.read_text()) == ("c.txt", "below", True, "three")
    with file.open("rb") as opened:
        assert opened.read(2) == b"th"


def test_missing_paths_raise_the_errors_of_pathlib(folder):
    assert not (folder / "none").exists() and list((folder / "none").glob("*")) == []
    with pytest.raises(FileNotFoundError, match="there is no ram://paths/none"):
        (folder / "none").read_bytes()


def test_a_file_system_that_tensorflow_lacks_is_named():
    with pytest.raises(ValueError, match="TensorFlow has no file system nofs://, only .*ram.*; install"):
        as_path("nofs://bucket/x").exists()


def test_files_are_found_by_listing_each_remote_folder_once(folder, monkeypatch, tmp_path):
    listed = []
    listdir = tf.io.gfile.listdir
    monkeypatch.setattr(tf.io.gfile, "listdir", lambda path: listed.append(path) or listdir(path))
    is_there = file_finder()
    assert is_there("ram://paths/a.csv") and is_there("ram://paths/b.txt") and not is_there("ram://paths/c.txt")
    assert listed == ["ram://paths"]
    (tmp_path / "x").touch()
    assert is_there(tmp_path / "x") and not is_there(tmp_path / "y") and not is_there(tmp_path)
