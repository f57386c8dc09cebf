"""augmented: the effect of each change on images and labels, with a seed, and what is refused."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.app.runs.values import Augmentations
from estimator_train.input_fns import augmented, frozen_features
from estimator_train.input_fns.augmentation import NAMES, PRESETS

SIDES = (21, 31)


@pytest.fixture
def images():
    return np.random.default_rng(2).random((12, *SIDES, 3), np.float32)


def change(names, *batch, seed=(3, 4)):
    change_of = augmented(lambda: None, names).change
    function = tf.function(lambda *batch: change_of(batch, tf.constant(seed, tf.int64)), autograph=False)
    return [part.numpy() for part in function(*batch)]


@pytest.mark.parametrize("name", [*NAMES, *PRESETS])
def test_images_are_changed_by_the_seed_and_stay_images(name, images):
    labels = np.eye(12, dtype="float32")
    changed, labels_then = change(name, images, labels)
    assert (changed.shape, changed.dtype) == (images.shape, np.float32)
    assert changed.min() >= 0 and changed.max() <= 1
    np.testing.assert_array_equal(change(name, images, labels)[0], changed)
    assert (change(name, images, labels, seed=(3, 5))[0] != changed).any()
    moved = np.abs(changed - images).max(axis=(1, 2, 3))
    assert (moved > 0).sum() > 2
    if name not in ("mixup", "cutmix"):
        np.testing.assert_array_equal(labels_then, labels)


def test_presets_and_lists_are_made_in_one_order(images):
    (expected,) = change(PRESETS["medium"], images)
    np.testing.assert_array_equal(change("contrast,brightness , medium", images)[0], expected)
    assert augmented(print, "zoom,flip").change == augmented(print, ["flip", "zoom", "flip"]).change


def test_flip_mirrors_some_images_and_leaves_the_others(images):
    (flipped,) = change("flip", images)
    are_mirrored = [np.array_equal(image, before[:, ::-1]) for image, before in zip(flipped, images, strict=True)]
    are_same = [np.array_equal(image, before) for image, before in zip(flipped, images, strict=True)]
    assert any(are_mirrored) and any(are_same)
    assert all(mirrored != same for mirrored, same in zip(are_mirrored, are_same, strict=True))


@pytest.mark.parametrize(
    ("name", "turn", "scale", "most_shift"),
    [("rotate", 15, (1, 1), 0), ("zoom", 0, (0.85, 1.15), 0), ("shift", 0, (1, 1), 0.1)],
)
def test_images_are_moved_within_their_limits(name, turn, scale, most_shift):
    """Shows where each pixel comes from, with an image whose two channels are its coordinates."""
    rows, columns = np.meshgrid(*(np.arange(side, dtype="float32") for side in SIDES), indexing="ij")
    image = np.stack([columns, rows], axis=-1)
    (moved,) = change(name, np.repeat(image[np.newaxis], 40, axis=0))
    centre = moved[:, SIDES[0] // 2, SIDES[1] // 2] - image[SIDES[0] // 2, SIDES[1] // 2]
    along_x = moved[:, SIDES[0] // 2, SIDES[1] // 2 + 1] - moved[:, SIDES[0] // 2, SIDES[1] // 2]
    angles, scales = np.degrees(np.arctan2(along_x[:, 1], along_x[:, 0])), np.hypot(*along_x.T)
    shifts = centre / [SIDES[1], SIDES[0]]
    for values, (low, high) in ((angles, (-turn, turn)), (scales, scale), (shifts, (-most_shift, most_shift))):
        assert low - 1e-3 <= values.min() and values.max() <= high + 1e-3
        assert high == low or values.max() - values.min() > (high - low) / 2
    along_y = moved[:, SIDES[0] // 2 + 1, SIDES[1] // 2] - moved[:, SIDES[0] // 2, SIDES[1] // 2]
    np.testing.assert_allclose(along_y, np.stack([-along_x[:, 1], along_x[:, 0]], axis=1), atol=1e-4)  # no shear


def test_brightness_and_contrast_keep_what_they_say(images):
    images = 0.3 + 0.4 * images  # nothing is clipped
    (brighter,) = change("brightness", images)
    added = (brighter - images).reshape(12, -1)
    assert np.ptp(added, axis=1).max() < 1e-6 and 0.1 < np.abs(added).max() <= 0.2
    images = 0.4 + 0.5 * (images - 0.3)
    (contrasted,) = change("contrast", images)
    np.testing.assert_allclose(contrasted.mean(axis=(1, 2)), images.mean(axis=(1, 2)), atol=1e-5)
    factors = contrasted.std(axis=(1, 2)) / images.std(axis=(1, 2))
    assert 0.8 <= factors.min() < 0.95 and 1.05 < factors.max() <= 1.2


def test_cutout_fills_a_rectangle_with_the_mean(images):
    (cut,) = change("cutout", images)
    for image, before in zip(cut, images, strict=True):
        is_cut = (image != before).any(axis=-1)
        rows, columns = np.flatnonzero(is_cut.any(axis=1)), np.flatnonzero(is_cut.any(axis=0))
        assert is_cut.sum() == len(rows) * len(columns) > 0
        assert len(rows) <= 11 and len(columns) <= 16
        np.testing.assert_allclose(image[is_cut] - before.mean(axis=(0, 1)), 0, atol=1e-6)


def test_crop_enlarges_a_part_of_at_least_half_of_each_side(images):
    rows, columns = np.meshgrid(*(np.linspace(0, 1, side, dtype="float32") for side in SIDES), indexing="ij")
    coordinates = np.stack([np.stack([rows, columns], axis=-1)] * 12)
    (cropped,) = change("crop", coordinates)
    spans = cropped[:, -1, -1] - cropped[:, 0, 0]
    np.testing.assert_allclose(spans[:, 0], spans[:, 1], atol=1e-5)  # the proportions stay
    assert 0.5 <= spans.min() < 0.75 < spans.max() <= 1
    assert cropped[:, 0, 0].min() >= 0 and cropped[:, -1, -1].max() <= 1


def test_cutmix_mixes_labels_by_the_area_of_the_rectangle():
    images = np.zeros((12, *SIDES, 1), np.float32) + np.arange(12, dtype="float32").reshape(-1, 1, 1, 1)
    changed, labels, weights = change("cutmix", images, np.eye(12, dtype="float32"), np.arange(12, dtype="float32"))
    assert (labels.max(axis=1) < 0.95).sum() > 6
    for index, (image, label, weight) in enumerate(zip(changed, labels, weights, strict=True)):
        area = (image != index).mean()
        (other,) = np.setdiff1d(image, [index]) if area else (index,)
        expected = np.zeros(12)
        expected[index] += 1 - area
        expected[int(other)] += area
        np.testing.assert_allclose(label, expected, atol=1e-6)
        np.testing.assert_allclose(weight, (1 - area) * index + area * other, atol=1e-5)


def test_mixup_mixes_images_labels_and_weights_alike():
    levels = np.arange(64, dtype="float32")
    images = np.ones((64, 2, 2, 1), np.float32) * levels[:, np.newaxis, np.newaxis, np.newaxis]
    mixed, labels, weights = change("mixup", images, np.eye(64, dtype="float32"), levels)
    np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-5)
    assert (np.count_nonzero(labels > 1e-3, axis=1) <= 2).all()
    np.testing.assert_allclose(mixed[:, 0, 0, 0], labels @ levels, atol=1e-3)
    np.testing.assert_allclose(weights, labels @ levels, atol=1e-3)
    own = labels.diagonal()
    assert 0.3 < own.mean() < 0.8 and ((own > 0.05) & (own < 0.95)).sum() > 5


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_changes_images_as_a_cpu_does(name, images, gpus):
    labels = np.eye(12, dtype="float32")
    with tf.device("CPU:0"):
        expected = change(name, images, labels)
    changed = gpus(1).run(lambda: change(name, images, labels))
    for ours, theirs in zip(changed, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize(
    ("names", "batch", "message"),
    [
        (
            "flip",
            [np.zeros((4, 3), np.float32)],
            r"augmentation takes float images of shape \(batch, height, width, channels\)",
        ),
        ("flip", [np.zeros((4, 3, 3, 1), np.uint8)], "takes float images"),
        (
            "mixup",
            [np.zeros((4, 3, 3, 1), np.float32)],
            "mixup needs float labels, .* got none; leave out mixup",
        ),
        ("mixup", [np.zeros((4, 3, 3, 1), np.float32), np.zeros(4, np.int64)], "mixup needs float labels"),
    ],
)
def test_batches_that_cannot_be_changed_are_refused(names, batch, message):
    with pytest.raises(ValueError, match=message):
        change(names, *batch)


def test_unknown_names_and_frozen_features_are_refused(images):
    with pytest.raises(ValueError, match="there is no augmentation 'flop'; choose from flip, rotate, "):
        augmented(lambda: None, "light,flop")
    with pytest.raises(ValueError, match="computes the features of each image only once"):
        augmented(frozen_features(lambda: None), "light")


def test_the_input_fn_shows_changed_batches(images):
    def input_fn():
        return tf.data.Dataset.from_tensors((images, np.eye(12, dtype="float32"))).repeat(2)

    first, second = (batch[0].numpy() for batch in augmented(input_fn, "flip")())
    assert (first != second).any()
    assert {image.tobytes() for image in first} <= {each.tobytes() for each in [*images, *images[:, :, ::-1]]}


def test_the_command_knows_the_same_names():
    assert (*NAMES, *PRESETS) == Augmentations.NAMES
