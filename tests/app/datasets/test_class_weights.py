"""Weights of classes: balanced by their counts, or read from a file."""

import dataclasses
import json

import pytest

from estimator_train.app.datasets import class_weights
from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.datasets.part import Part


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Counted(Part):
    numbers: dict | None

    def counts(self):
        return self.numbers


def data_of(counts, class_names=("a", "b")):
    about = {"class_names": class_names, "default_model": "", "default_epochs": 1, "image_size": (1, 1)}
    return Dataset(name="counted", **about, train=Counted(numbers=counts), eval=Counted(numbers=counts))


def test_balanced_weights_give_every_class_the_same_sum():
    weights = class_weights(data_of({"b": 30, "a": 10}))
    assert weights == pytest.approx((2.0, 2 / 3))


@pytest.mark.parametrize(
    ("counts", "message"),
    [(None, "counted does not know how many examples"), ({"a": 3, "b": 0}, "class 'b' has no training examples")],
)
def test_counts_that_are_missing_are_named(counts, message):
    with pytest.raises(ValueError, match=message):
        class_weights(data_of(counts))


@pytest.mark.parametrize("mark", ["", "\ufeff"])  # Excel's "CSV UTF-8" begins with a byte order mark
@pytest.mark.parametrize(("name", "text"), [("w.JSON", '{"ä": 2, "a": 0.5}'), ("w.csv", "ä,2\na, 0.5\n")])
def test_weights_of_a_file_come_in_the_order_of_the_classes(tmp_path, name, text, mark):
    (tmp_path / name).write_text(mark + text, encoding="utf-8")
    assert class_weights(data_of(None, ("a", "ä")), tmp_path / name) == (0.5, 2.0)


@pytest.mark.parametrize("name", ["w.json", "w.csv"])
def test_a_file_that_is_not_utf_8_is_named(tmp_path, name):
    (tmp_path / name).write_bytes("ä,2".encode("latin-1"))
    with pytest.raises(ValueError, match=f"{name} is not UTF-8 text"):
        class_weights(data_of(None), tmp_path / name)


def test_a_file_that_is_not_there_is_named_with_balanced(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file; give balanced, or a JSON or CSV file"):
        class_weights(data_of(None), "auto")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("w.csv", "a,1\nb\n", "w.csv line 2: got b, not a class and a weight such as DRUSEN,2.5"),
        ("w.csv", "a,1\nb,2\n a,3\n", "w.csv line 3: 'a' has a weight already; leave one"),
        ("w.csv", "class,weight\n", "line 1: got class,weight, not a class and a weight .* no header"),
        ("w.csv", "a,1\nc,2\n", "must have the classes 'a', 'b': it lacks 'b' and there is no class 'c'"),
        ("w.json", json.dumps({"a": 1, "b": -2}), "the weight of 'b' must not be negative, got -2"),
        ("w.json", '{"a": 1, "b": NaN}', "the weight of 'b' must not be negative, got nan"),
        ("w.json", "[1, 2]", "must be a JSON object such as .*: it is not an object"),
        ("w.json", "{", "must be a JSON object such as"),
    ],
)
def test_files_that_are_wrong_are_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        class_weights(data_of(None), tmp_path / name)
