"""A file is written whole or not at all, and what a killed process left unfinished is known by its name."""

import concurrent.futures
import os
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from estimator_train._engine.host import files


def test_a_file_is_replaced_whole_with_the_permissions_of_any_new_file(tmp_path):
    path, other = tmp_path / "run.json", tmp_path / "other"
    files.write_whole(path, "old")
    files.write_whole(path, b"new")
    other.write_text("")
    assert path.read_text() == "new"
    assert path.stat().st_mode == other.stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["other", "run.json"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_error_leaves_the_old_file_and_nothing_else(step, tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    files.write_whole(path, "old")

    def fail(*_):
        assert os.listdir(tmp_path) != ["run.json"]  # the new one is hidden next to it
        raise OSError("no space")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="no space"):
        files.write_whole(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_file_in_tensorflows_own_file_systems_is_written_too():
    files.write_whole("ram://test_files/run.json", "text")
    assert tf.io.gfile.listdir("ram://test_files") == ["run.json"]
    assert tf.io.gfile.GFile("ram://test_files/run.json").read() == "text"


def test_characters_that_control_a_terminal_or_reorder_text_are_escaped():
    assert files.printable("a\x1b[2J\u202egnp.exe\u2069é\udcff\n") == r"a\x1b[2J\u202egnp.exe\u2069é\udcff\x0a"


def test_the_owner_of_an_unfinished_file_is_in_its_name():
    name = os.path.basename(files.unfinished("run/run.json"))
    assert files.owner_of_unfinished(name) == files.this_process()
    for other in ("run.json", ".run.json.part", "run.json.part", ".a.b-c.part", f"{name}.txt"):
        assert files.owner_of_unfinished(other) is None


def test_threads_that_write_one_file_use_different_unfinished_files():
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        other = thread.submit(files.unfinished, "run/run.json").result()
    assert other != files.unfinished("run/run.json")
    assert files.owner_of_unfinished(os.path.basename(other)) == files.this_process()


def test_an_ended_process_is_gone_and_one_elsewhere_is_gone_after_a_day():
    now = time.time()
    host, _, pid = files.this_process().rpartition("-")
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    assert files.is_gone(f"{host}-{ended.pid}", now)
    assert not files.is_gone(f"{host}-{os.getppid()}", now)
    assert not files.is_gone(f"{host}-{pid}", now)
    assert files.is_gone(f"{host}-{pid}", now - 86400)  # of a process before this one, of the same number
    assert not files.is_gone(f"{host}-{os.getppid()}", now - 1)
    assert files.is_gone(f"{host}-{os.getppid()}", now - 86400 * 365)  # of one before the parent, of the same number
    assert not files.is_gone("elsewhere-1", now - 3600)
    assert files.is_gone("elsewhere-1", now - 90000)
