"""Parts of a dataset are limited and split so that classes keep their proportions."""

import numpy as np
import pytest

from estimator_train.app.datasets.held_out import BY_RANK, holding_out_by
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
    part = ImageArrays(images=np.arange(20), labels=labels, class_names=["a", "b"])
    kept, chosen = part.split(0.3)
    assert sorted([*kept.images, *chosen.images]) == [*range(20)] and 2 <= chosen.count <= 10
    fewer, more = (set(part.split(share)[1].images) for share in (0.2, 0.4))
    assert fewer < more  # a larger share holds out the same and more
    with holding_out_by(BY_RANK):
        assert part.split(0.3)[1].labels.tolist().count(0) == 3


def test_what_leaves_a_side_without_examples_is_refused():
    part = ImageArrays(images=np.zeros([4, 1]), labels=np.array([0, 0, 0, 1]), class_names=["a", "b"])
    with pytest.raises(ValueError, match="none of the 4 examples is held out for validation by its name; add some, or"):
        part.split(0)
    with pytest.raises(ValueError, match="all examples of class 'a', 'b' are held out for validation by their name"):
        part.split(1)


def test_a_part_without_labels_cannot_be_limited_or_split():
    for method, numbers in (("limited", (8, 0)), ("split", (0.2,))):
        with pytest.raises(UnknownLabelsError):
            getattr(Part(), method)(*numbers)
