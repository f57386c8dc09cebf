"""All datasets hold out shares of each class, compare the names of classes, and print as a line or a table."""

import numpy as np
import pytest

from estimator_train.app.datasets import npz, open_dataset, synthetic_oct
from estimator_train.app.datasets.dataset import check_classes, held_out, split_rows, stratified

PETS = {"cat": {name: name for name in "abcdefgh"}, "dog": {name: name.upper() for name in "wxyz"}, "owl": {"o": "o"}}


def test_a_limit_keeps_the_proportions_and_chooses_part_of_a_larger_one():
    few, many = (stratified(PETS, limit, seed=0) for limit in (4, 8))
    assert set(few) < set(many) and len(few) == 4 and len(many) == 8
    assert sum(name.islower() and name != "o" for name in many) == 5
    with pytest.raises(ValueError, match="limit 2 is less than one example for each of the 3 classes"):
        stratified(PETS, 2, seed=0)


def test_a_share_leaves_each_class_an_example():
    two = {name: PETS[name] for name in ("cat", "dog")}
    chosen = held_out(two, 0.25)
    assert len(chosen) == 3 and sum(name.isupper() for name in chosen) == 1
    assert held_out(two, 0.01) == held_out(two, 0.1666) and len(held_out(two, 0.01)) == 2  # one of each class
    assert held_out(PETS, 0) == []
    with pytest.raises(ValueError, match=r"class owl has too few training examples, 1, to hold out 0\.25"):
        held_out(PETS, 0.25)


def test_rows_are_kept_or_held_out():
    labels = np.array([0, 1] * 10)
    kept, chosen = split_rows(labels, 0.3)
    assert sorted(kept + chosen) == list(range(20)) and labels[chosen].tolist().count(0) == 3
    assert split_rows(labels, 0) == (list(range(20)), [])


def test_classes_that_differ_are_named():
    check_classes("here", ["b", "a"], ("a", "b"))
    with pytest.raises(
        ValueError, match="^here does not have the classes of the run: it lacks b; the run does not .* c$"
    ):
        check_classes("here", ["a", "c"], ("a", "b"))
    with pytest.raises(ValueError, match="^here does not have the classes of the run: it lacks b$"):
        check_classes("here", ["a"], ("a", "b"))


@pytest.fixture
def scans(tmp_path):
    synthetic_oct.draw_dataset(tmp_path / "scans", images_per_class={"train": 3, "test": 2})
    return open_dataset("images", tmp_path / "scans")


def test_a_dataset_is_a_line_without_its_paths(scans):
    assert repr(scans) == "<ImageDataset images: 12 examples to train on and 8 to evaluate on>"


def test_the_table_of_a_dataset_has_the_images_of_each_class(scans):
    table = scans._repr_html_()
    assert "<tr><th>examples</th><td>train 12, eval 8</td></tr>" in table
    assert "<tr><th>DRUSEN</th><td>train 3, eval 2</td></tr>" in table


def test_a_subclass_may_show_itself_differently():
    class Loud(npz.ArrayDataset):
        def __repr__(self):
            return "LOUD"

    assert Loud.__repr__(None) == "LOUD"
