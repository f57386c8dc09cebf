"""sides.csv keeps which images a run has trained on, through resumes, and tells changes from it."""

from types import SimpleNamespace

import pytest

from estimator_train.app.runs import sides_file


def data(train, evaluated, validation=()):
    """A dataset of images by these names."""
    sides = {"train": train, "eval": evaluated, "validation": validation}
    parts = {
        side: SimpleNamespace(paths=[*names], own_names=lambda names=names: names) for side, names in sides.items()
    }
    return SimpleNamespace(parts={side: part for side, part in parts.items() if part.paths})


def changed(model_dir, now):
    return sides_file.changes(sides_file.read(model_dir), sides_file.sides_of(now))


def test_images_that_come_go_and_move_are_counted(tmp_path):
    sides_file.save(tmp_path, data("abc", "de", "f"), is_new=True)
    assert changed(tmp_path, data("abc", "de", "f")) is None
    assert changed(tmp_path, data("ab", "dex", "f"))[:4] == (1, 1, 0, {})
    assert changed(tmp_path, data("ad", "bx", "cf")) == (1, 1, 3, {"validation": 1, "eval": 1}, 0)


def test_a_resumed_run_still_lists_the_images_trained_on_before(tmp_path):
    sides_file.save(tmp_path, data("abc", "de"), is_new=True)
    sides_file.save(tmp_path, data("ab", "dec"), is_new=False)
    sides_file.save(tmp_path, data("b", "dec"), is_new=False)
    assert sides_file.trained_on(sides_file.read(tmp_path)) == {"a", "b", "c"}
    assert changed(tmp_path, data("b", "dec")) == (0, 0, 0, {"eval": 1}, 0)
    sides_file.save(tmp_path, data("b", "de"), is_new=True)  # it starts again
    assert sides_file.trained_on(sides_file.read(tmp_path)) == {"b"}


def test_new_images_may_be_those_that_went(tmp_path):
    sides_file.save(tmp_path, data("abc", "de"), is_new=True)
    assert changed(tmp_path, data("abc", "dey")).doubtful == 0  # none went
    for _ in range(2):
        assert changed(tmp_path, data("ab", "dex")).doubtful == 1
        sides_file.save(tmp_path, data("ab", "dex"), is_new=False)
    assert changed(tmp_path, data("ab", "de")).doubtful == 0


def test_images_of_one_name_on_two_sides_are_two(tmp_path):
    sides_file.save(tmp_path, data("ab", "ab"), is_new=True)
    assert changed(tmp_path, data("ab", "ab")) is None
    assert changed(tmp_path, data("a", "ab")) == (0, 1, 0, {}, 0)


@pytest.mark.parametrize("text", ["", "image,side\n", "side,image\nleft,a\n", "side,image\ntrain\n", '"', "\0"])
def test_what_is_no_list_of_images_is_left_out(tmp_path, text):
    (tmp_path / "sides.csv").write_text(text)
    assert sides_file.read(tmp_path) is None and sides_file.read(tmp_path / "nowhere") is None


def test_a_resumed_run_of_before_calls_evaluated_images_doubtful(tmp_path):
    sides_file.save(tmp_path, data("ab", "c"), is_known=False)
    assert changed(tmp_path, data("ab", "c")) == (0, 0, 0, {}, 1)
    (tmp_path / "sides.csv").unlink()
    sides_file.save(tmp_path, data("ab", "c"), is_known=True)
    assert changed(tmp_path, data("ab", "c")) is None


def test_images_that_are_no_files_are_not_listed(tmp_path):
    sides_file.save(tmp_path, SimpleNamespace(parts={"train": SimpleNamespace(paths=[])}), is_new=True)
    assert not any(tmp_path.iterdir())
