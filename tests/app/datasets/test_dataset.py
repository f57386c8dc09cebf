"""A dataset compares the names of classes, and prints as a line or a table."""

import dataclasses

import pytest

from estimator_train.app.datasets import open_dataset, synthetic_oct
from estimator_train.app.datasets.dataset import check_classes


def test_classes_that_differ_are_named():
    check_classes("here", ["b", "a"], ("a", "b"))
    with pytest.raises(
        ValueError, match="^here does not have the classes of the run: it lacks 'b'; the run does not .* 'c'$"
    ):
        check_classes("here", ["a", "c"], ("a", "b"))
    with pytest.raises(ValueError, match="^here does not have the classes of the run: it lacks 'b'$"):
        check_classes("here", ["a"], ("a", "b"))


@pytest.fixture
def scans(tmp_path):
    synthetic_oct.draw_dataset(tmp_path / "scans", images_per_class={"train": 3, "test": 2})
    return open_dataset("images", tmp_path / "scans")


def test_a_dataset_is_a_line_without_its_paths(scans):
    assert repr(scans) == "<Dataset images: 12 examples to train on and 8 to evaluate on>"


@pytest.mark.parametrize(("batch_size", "epochs"), [(32, 300), (4, 100), (1, 25)])
def test_a_small_folder_is_trained_for_some_300_steps(scans, batch_size, epochs):
    assert scans.epochs_for(batch_size) == epochs


def test_a_large_folder_is_trained_for_5_epochs_and_others_for_their_own(scans):
    many = dataclasses.replace(scans.train, labels=scans.train.labels * 1000)
    assert dataclasses.replace(scans, train=many).epochs_for(32) == 5
    assert dataclasses.replace(scans, default_epochs=2).epochs_for(32) == 2


def test_the_table_of_a_dataset_has_the_images_of_each_class(scans):
    table = scans._repr_html_()
    assert "<tr><th>examples</th><td>train 12, eval 8</td></tr>" in table
    assert "<tr><th>DRUSEN</th><td>train 3, eval 2</td></tr>" in table


def test_two_classes_of_one_name_are_refused(scans):
    with pytest.raises(ValueError, match="^images has several classes of the name 'CNV'; rename them$"):
        dataclasses.replace(scans, class_names=("CNV", "DME", "CNV", "NORMAL"))
