"""Batches of image files whose labels, and weights, are given."""

import numpy as np
import pytest
from PIL import Image

from estimator_train.input_fns import labelled_images

LABELS = np.arange(12, dtype=np.float32).reshape(6, 2)
WEIGHTS = np.arange(6, dtype=np.float32)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Six images; the pixels of each have its number."""
    folder = tmp_path_factory.mktemp("images")
    for number in range(6):
        Image.fromarray(np.full((4, 4), number, np.uint8)).save(folder / f"{number}.png")
    return [str(folder / f"{number}.png") for number in range(6)]


def rows(dataset):
    """Returns {number in the image: its label and weight}."""
    return {
        round(float(image[0, 0, 0]) * 255): [each.numpy().tolist() for each in rest]
        for image, *rest in dataset.unbatch()
    }


@pytest.mark.slow
@pytest.mark.parametrize("cache", [None, "memory"])
def test_labels_and_weights_go_with_their_images(paths, cache):
    options = {"image_size": (4, 4), "batch_size": 4, "num_epochs": 1, "cache": cache}
    weighed = labelled_images(paths, LABELS, sample_weight=WEIGHTS, shuffle=True, seed=3, **options)
    assert rows(weighed()) == {number: [LABELS[number].tolist(), number] for number in range(6)}
    images, labels, weights = next(iter(weighed.host_batches()))
    assert images.shape[-1] == 1 and labels.shape == (4, 2) and weights.shape == (4,)
    plain = labelled_images(paths, LABELS, **options)
    assert rows(plain()) == {number: [LABELS[number].tolist()] for number in range(6)}


def test_class_indices_become_one_hot(paths):
    dataset = labelled_images(paths, np.array([0, 1, 2] * 2), (4, 4), num_classes=3, num_epochs=1)()
    np.testing.assert_array_equal(next(iter(dataset))[1], np.eye(3)[[0, 1, 2] * 2])


def test_class_indices_outside_of_the_classes_are_refused(paths):
    for labels, got in ((np.array([1, 2, 3] * 2), "1 to 3"), (np.array([-1, 0, 2] * 2), "-1 to 2")):
        with pytest.raises(ValueError, match=f"labels must be class indices from 0 to 2, got {got}"):
            labelled_images(paths, labels, (4, 4), num_classes=3)


def test_paths_and_weights_may_be_arrays_or_lists(paths):
    input_fn = labelled_images(np.array(paths), LABELS.tolist(), (4, 4), sample_weight=WEIGHTS.tolist(), num_epochs=1)
    assert input_fn.fingerprint() == labelled_images(paths, LABELS, (4, 4), sample_weight=WEIGHTS).fingerprint()
    assert rows(input_fn()) == {number: [LABELS[number].tolist(), number] for number in range(6)}
    assert input_fn().element_spec[2].dtype == "float32"


def test_weights_and_labels_have_different_fingerprints(paths):
    prints = {
        labelled_images(paths, labels, (4, 4), sample_weight=weights).fingerprint()
        for labels in (LABELS, LABELS + 1)
        for weights in (None, WEIGHTS)
    }
    assert len(prints) == 4


@pytest.mark.parametrize("labels, weights", [(LABELS[:5], None), (LABELS, WEIGHTS[:3])])
def test_arrays_of_another_length_are_refused(paths, labels, weights):
    with pytest.raises(ValueError, match=r"must have the same length above 0, got \[\d, 6\]"):
        labelled_images(paths, labels, sample_weight=weights)
