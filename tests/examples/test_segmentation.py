"""examples/segmentation.py reads images with their masks, and changes both alike, in any number of workers."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_train.input_fns import Skipped
from examples import segmentation

ALONE = tf.distribute.InputContext()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    segmentation.draw_pages(folder, number=5)
    return folder


def arrays_of(folder, seed=None, epoch=0, first=0, context=ALONE):
    return list(
        segmentation.examples(segmentation.list_samples(folder), (64, 96), seed, epoch, first, input_context=context)
    )


def test_lines_of_drawn_tables_are_dark_and_in_their_masks(drawn):
    for image, masks in arrays_of(drawn):
        assert (image.shape, masks.shape) == ((64, 96, 3), (64, 96, 2))
        assert image.dtype == masks.dtype == np.uint8 and set(np.unique(masks)) == {0, 1}
        lines = masks.any(axis=-1)
        assert image[lines].mean() < image[~lines].mean() - 60
        rows, columns = masks[..., 0], masks[..., 1]
        assert rows.mean(axis=1).max() > 2 * rows.mean(axis=0).max()  # they run from side to side
        assert columns.mean(axis=0).max() > 2 * columns.mean(axis=1).max()


def test_masks_are_turned_and_flipped_and_scaled_with_their_image():
    mask = np.zeros((64, 64), np.uint8)
    mask[10:20, 8:50], mask[30:60, 12:20] = 255, 255
    seen = set()
    for seed in range(8):
        images = Image.fromarray(255 - mask).convert("RGB"), [Image.fromarray(mask)]
        image, (changed,) = segmentation.turned(*images, np.random.default_rng(seed))
        is_dark, is_masked = np.asarray(image)[..., 0] < 128, np.asarray(changed) > 127
        assert np.mean(is_dark != is_masked) < 0.01
        seen.add(is_masked.tobytes())
    assert len(seen) == 8


def test_examples_depend_on_the_seed_and_the_epoch_and_not_on_the_shares(drawn):
    def images(**arguments):
        return np.stack([image for image, _ in arrays_of(drawn, seed=1, **arguments)])

    for index in range(2):
        share = images(context=tf.distribute.InputContext(2, index, 2))
        np.testing.assert_array_equal(images()[index::2], share)
    np.testing.assert_array_equal(images()[3:], images(first=3))
    assert (images() != images(epoch=1)).any()


def test_files_that_cannot_be_read_are_skipped(tmp_path):
    segmentation.draw_pages(tmp_path, number=5)
    page = tmp_path / "images" / "0001.jpeg"
    page.write_bytes(page.read_bytes()[:2000])
    (tmp_path / "masks" / "rows" / "0002.png").write_bytes(b"not a png")
    other = tmp_path / "masks" / "columns" / "0004.png"
    Image.new("L", (20, 30)).save(other)
    elements = arrays_of(tmp_path)
    assert [isinstance(element, Skipped) for element in elements] == [False, True, True, False, True]
    assert elements[1].what.startswith(f"{page}: image file is truncated")
    assert elements[4].what.endswith(f"0004.jpeg: its mask {other} has another size")
    (tmp_path / "masks" / "rows" / "0003.png").unlink()
    with pytest.raises(SystemExit, match=r"0003.jpeg has no mask .*rows/0003.png; an empty mask is a black image"):
        segmentation.list_samples(tmp_path)


def test_the_loss_is_of_each_image_and_weighs_the_pixels_of_masks():
    truth, prediction = tf.ones([2, 1, 2, 1]) * [[[[1.0], [0.0]]]], tf.fill([2, 1, 2, 1], 0.5)
    losses = [segmentation.bce_dice_loss(truth, prediction, positive_weight=weight) for weight in (3.0, 1.0)]
    np.testing.assert_allclose(losses[0] - losses[1], [np.log(2)] * 2, rtol=1e-5)  # 3 - 1 times, in half of the pixels
    np.testing.assert_allclose(segmentation.dice_coefficient(truth, truth), [1, 1])


def test_sides_that_cannot_be_halved_four_times_are_refused():
    with pytest.raises(SystemExit, match=r"both sides must be multiples of 16 pixels, got \(32, 40\)"):
        segmentation.build_model((32, 40), 1, 0.1)
