"""Columns in memory and in files, and manifests that cannot be read."""

import numpy as np
import pytest

from estimator_train._engine.host.array_store import Column, read_manifest


@pytest.mark.parametrize("place", ["memory", "file"])
def test_a_column_holds_the_rows_appended_in_order(place, tmp_path):
    rows = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    column = Column((3, 2), np.float32, None if place == "memory" else tmp_path / "0.rows")
    assert column.array().shape == (0, 3, 2)
    for begin, end in ((0, 1), (1, 4)):
        column.append(rows[begin:end], at_most=4)
    column.sync()
    np.testing.assert_array_equal(column.array(), rows)
    assert (column.rows, column.nbytes) == (4, rows.nbytes)


def test_a_later_process_continues_the_rows_of_a_file(tmp_path):
    Column((), np.int64, tmp_path / "0.rows").append(np.array([1, 2]))
    later = Column((), np.int64, tmp_path / "0.rows", rows=2)
    later.append(np.array([3]))
    assert later.array().tolist() == [1, 2, 3]


@pytest.mark.parametrize("content", ["not JSON", "[]", "{}"])
def test_a_damaged_manifest_is_reported_and_ignored(content, tmp_path, log_lines):
    path = tmp_path / "manifest.json"
    assert read_manifest(path, lambda manifest: manifest["rows"], "all is computed again") is None
    assert not log_lines
    path.write_text(content)
    assert read_manifest(path, lambda manifest: manifest["rows"], "all is computed again") is None
    assert f"{path} cannot be read, so all is computed again" in log_lines[-1]
