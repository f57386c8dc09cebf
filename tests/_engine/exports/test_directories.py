"""Exports get directories of their own, also those of threads that export at once."""

import os

import pytest
import tensorflow as tf

from estimator_train._engine.exports import directories
from estimator_train._engine.exports.directories import exports_in, new_export_directory


@pytest.fixture(autouse=True)
def noon(monkeypatch):
    class Time:
        time = staticmethod(lambda: 1700000000.5)

    monkeypatch.setattr(directories, "time", Time)


def write(directory):
    tf.io.gfile.makedirs(directory)
    tf.io.gfile.GFile(os.path.join(directory, "saved_model.pb"), "w").close()


def test_exports_that_are_made_at_once_have_directories_of_their_own(tmp_path):
    with new_export_directory(tmp_path) as (first, _):
        write(first)
        with new_export_directory(os.fsencode(tmp_path)) as (second, final):
            write(second)
        assert final.endswith(b"1700000001") and first != second
    assert [os.path.basename(path) for path in exports_in(tmp_path)] == ["1700000000", "1700000001"]


def test_an_export_that_fails_leaves_its_time_to_the_next(tmp_path):
    for _ in range(2):
        with pytest.raises(OSError, match="full"), new_export_directory(tmp_path) as (temporary, final):
            write(temporary)
            raise OSError("full")
        assert final.endswith(b"1700000000") and os.listdir(tmp_path) == []
