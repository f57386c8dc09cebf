"""Labels that look like mistakes are named in the plan, one line for each kind."""

import pytest

from estimator_train.app import datasets
from estimator_train.app.datasets.doubtful_labels import doubtful_labels


@pytest.fixture
def open_rows(tmp_path):
    def open_rows(rows, task="classification"):
        for path, _, _ in rows:
            (tmp_path / path).touch()
        (tmp_path / "labels.csv").write_text("\n".join(map(",".join, [("path", "label", "split"), *rows])))
        return datasets.open_dataset("manifest", tmp_path / "labels.csv", task=task)

    return open_rows


def test_images_in_two_classes_are_counted_and_one_is_named(open_rows, tmp_path):
    rows = [("1", "cat", "train"), ("2", "dog", "train"), ("1", "dog", "test"), ("3", "dog", "test")]
    named = f"such as {tmp_path}/1 in 'cat', 'dog'"
    assert doubtful_labels(open_rows(rows)) == {"two classes": f"1 image is listed in several classes, {named}"}
    more = [*rows, ("2", "cat", "test")]
    assert doubtful_labels(open_rows(more)) == {"two classes": f"2 images are listed in several classes, {named}"}
    assert doubtful_labels(open_rows(more, "multilabel")) == {}


def test_classes_that_differ_in_case_spaces_or_composition_are_named(open_rows):
    names = ["RED", "red", "blue", "caf\u00e9", "cafe\u0301", "a b", "a  b"]
    rows = [(f"{number}", name, side) for number, name in enumerate(names) for side in ("train", "test")]
    alike = ["'RED' and 'red'", "'a  b' and 'a b'", "'cafe\u0301' and 'caf\u00e9'"]
    assert doubtful_labels(open_rows(rows)) == {
        "spelling": "; ".join(f"{each} are different classes" for each in alike)
    }


@pytest.mark.parametrize("task, kind", [("classification", "class"), ("multilabel", "label")])
def test_a_class_that_programs_write_for_a_missing_label_is_named(open_rows, task, kind):
    rows = [(f"{number}", name, side) for number, name in enumerate(["nan", "cat"]) for side in ("train", "test")]
    line = f"'nan' is a {kind}, and may mean a missing label"
    assert doubtful_labels(open_rows(rows, task)) == {"no label": line}
