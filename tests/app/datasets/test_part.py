"""Parts of a dataset are limited and split so that classes keep their proportions."""

import numpy as np
import pytest

from estimator_train.app.datasets.npz import ImageArrays
from estimator_train.app.datasets.part import Part, UnknownLabelsError, held_out, stratified

PETS = {"cat": {name: name for name in "abcdefgh"}, "dog": {name: name.upper() for name in "wxyz"}, "owl": {"o": "o"}}


def test_a_limit_keeps_the_proportions_and_chooses_part_of_a_larger_one():
    few, many = (stratified(PETS, limit, seed=0) for limit in (4, 8))
    assert set(few) < set(many) and len(few) == 4 and len(many) == 8
    assert sum(name.islower() and name != "o" for name in many) == 5
    with pytest.raises(ValueError, match="limit 2 is less than one example for each of the 3 classes"):
        stratified(PETS, 2, seed=0)


def test_a_share_leaves_each_class_an_example():
    names = {name: name for name in PETS}
    two = {name: PETS[name] for name in ("cat", "dog")}
    chosen = held_out(two, 0.25, names)
    assert len(chosen) == 3 and sum(name.isupper() for name in chosen) == 1
    assert (
        held_out(two, 0.01, names) == held_out(two, 0.1666, names) and len(held_out(two, 0.01, names)) == 2
    )  # one of each class
    with pytest.raises(ValueError, match=r"class 'owl' has too few training examples, 1, to hold out 0\.25"):
        held_out(PETS, 0.25, names)


def test_rows_are_kept_or_held_out():
    labels = np.array([0, 1] * 10)
    kept, chosen = ImageArrays(images=labels, labels=labels, class_names=["a", "b"]).split(0.3)
    assert sorted([*kept.labels, *chosen.labels]) == sorted(labels) and chosen.labels.tolist().count(0) == 3


def test_a_part_without_labels_cannot_be_limited_or_split():
    for method, numbers in (("limited", (8, 0)), ("split", (0.2,))):
        with pytest.raises(UnknownLabelsError):
            getattr(Part(), method)(*numbers)
