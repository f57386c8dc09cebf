"""Datasets show themselves in a line, and in a notebook as a table."""

import pytest

from estimator_train.app.datasets import npz, open_dataset, synthetic_oct


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
