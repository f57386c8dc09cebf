"""Directories that appear only when they are complete."""

import pytest

from estimator_train.app.datasets.disk import whole_directory


def test_a_directory_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "cache" / "pages"
    with whole_directory(path) as unfinished:
        (unfinished / "page").touch()
        assert not path.exists()
    assert [each.name for each in path.iterdir()] == ["page"]
    assert list(path.parent.iterdir()) == [path]


def test_nothing_is_left_after_an_error(tmp_path):
    with pytest.raises(KeyboardInterrupt), whole_directory(tmp_path / "pages"):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_the_first_of_two_writers_wins(tmp_path):
    path = tmp_path / "pages"
    with whole_directory(path) as slower:
        (slower / "second").touch()
        with whole_directory(path) as faster:
            (faster / "first").touch()
    assert [each.name for each in path.iterdir()] == ["first"]
