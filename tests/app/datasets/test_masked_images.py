"""Images and masks are found, checked, read and augmented together; drawn tables are such a folder."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_train._engine.host.generator_stream import Skipped
from estimator_train.app.datasets import drawn_tables, masked_images

MASKS = ("rows", "columns")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn") / "tables"
    drawn_tables.draw_pages(folder, 3)
    return folder


@pytest.fixture
def folder(drawn, tmp_path):
    return shutil.copytree(drawn, tmp_path / "tables")


def arrays_of(folder, **arguments):
    return list(masked_images.examples(masked_images.list_samples(folder, MASKS), (64, 96), **arguments))


def test_lines_of_drawn_tables_are_dark_and_in_their_masks(drawn):
    for image, masks in arrays_of(drawn):
        assert (image.shape, masks.shape) == ((64, 96, 3), (64, 96, 2))
        assert image.dtype == masks.dtype == np.uint8 and set(np.unique(masks)) == {0, 1}
        lines = masks.any(axis=-1)
        assert image[lines].mean() < image[~lines].mean() - 60
        rows, columns = masks[..., 0], masks[..., 1]
        assert rows.mean(axis=1).max() > 0.4 > rows.mean(axis=0).max()
        assert columns.mean(axis=0).max() > 0.4 > columns.mean(axis=1).max()


def test_pages_are_drawn_alike_each_time_and_into_the_cache_once(drawn, tmp_path, monkeypatch):
    monkeypatch.setattr(drawn_tables, "PAGES", 1)
    monkeypatch.setattr(drawn_tables.platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    folder = drawn_tables.directory()
    page = folder / "images" / "page-0000.jpeg"
    assert page.read_bytes() == (drawn / "images" / page.name).read_bytes()
    before = page.stat().st_mtime_ns
    assert drawn_tables.directory() == folder and page.stat().st_mtime_ns == before


def test_masks_are_turned_and_flipped_and_scaled_with_their_image(tmp_path):
    mask = np.zeros((64, 64), np.uint8)
    mask[10:20, 8:50], mask[30:60, 12:20] = 255, 255
    for name in ("images", "masks/rows"):
        (tmp_path / name).mkdir(parents=True)
        Image.fromarray(255 - mask if name == "images" else mask).save(tmp_path / name / "a.png")
    samples = masked_images.list_samples(tmp_path, ["rows"])
    seen = set()
    for epoch in range(8):
        image, masks = next(masked_images.examples(samples, (64, 64), seed=3, epoch=epoch))
        assert np.mean((image[..., 0] < 128) != masks[..., 0]) < 0.01
        seen.add(masks.tobytes())
    assert len(seen) == 8


def test_examples_depend_on_the_seed_and_the_epoch_and_not_on_the_shares(drawn):
    def images(**arguments):
        return np.stack([image for image, _ in arrays_of(drawn, seed=1, **arguments)])

    shares = [images(input_context=tf.distribute.InputContext(2, index, 2)) for index in range(2)]
    np.testing.assert_array_equal(images()[0::2], shares[0])
    np.testing.assert_array_equal(images()[1::2], shares[1])
    assert (images() != images(epoch=1)).any()


def test_masks_of_ones_and_of_255_are_alike(folder):
    expected = arrays_of(folder)[0][1]
    path = folder / "masks" / "rows" / "page-0000.png"
    Image.fromarray((np.asarray(Image.open(path)) > 0).astype(np.uint8)).save(path)
    np.testing.assert_array_equal(arrays_of(folder)[0][1], expected)


def test_an_image_of_16_bits_is_read_as_one_of_8(folder):
    page = folder / "images" / "page-0000.jpeg"
    gray = np.asarray(Image.open(page).convert("L"))
    page.unlink()
    page = page.with_suffix(".png")
    Image.fromarray(gray).save(page)
    expected = arrays_of(folder)[0][0]
    Image.fromarray(gray.astype(np.uint16) * 256 + 255).save(page)
    np.testing.assert_array_equal(arrays_of(folder)[0][0], expected)


def test_files_that_cannot_be_read_are_skipped(folder):
    page = folder / "images" / "page-0001.jpeg"
    page.write_bytes(page.read_bytes()[:2000])
    (folder / "masks" / "rows" / "page-0002.png").write_bytes(b"not a png")
    elements = arrays_of(folder)
    assert [isinstance(element, Skipped) for element in elements] == [False, True, True]
    assert elements[1].what.startswith(f"{page}: image file is truncated")
    assert "masks/rows/page-0002.png" in elements[2].what


def test_a_mask_of_another_size_than_its_image_is_refused(folder):
    Image.new("L", (20, 30)).save(folder / "masks" / "columns" / "page-0001.png")
    line = r"columns/page-0001.png is 20x30 pixels, but its image .*images/page-0001.jpeg is 512x512"
    with pytest.raises(ValueError, match=line):
        masked_images.list_samples(folder, MASKS)


def test_a_missing_mask_and_missing_images_are_reported(folder, tmp_path):
    (folder / "masks" / "rows" / "page-0002.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"page-0002.jpeg has no mask .*rows/page-0002.png"):
        masked_images.list_samples(folder, MASKS)
    with pytest.raises(FileNotFoundError, match=r"no images \(.png, .jpg, .jpeg\) in .*nowhere/images"):
        masked_images.list_samples(tmp_path / "nowhere", MASKS)


def test_every_fifth_image_is_held_out(drawn, tmp_path):
    page = masked_images.list_samples(drawn, MASKS)[0]
    samples = [page._replace(image=tmp_path / str(number)) for number in range(12)]
    for number in (0, 9):
        shutil.copy(page.image, samples[number].image)
    train, held_out = masked_images.split(samples)
    assert [int(sample.image.name) for sample in train] == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11]
    assert [int(sample.image.name) for sample in held_out] == [4, 9]
    with pytest.raises(ValueError, match="so at least 5 are needed, got 4"):
        masked_images.split(samples[:4])
    with pytest.raises(ValueError, match="none of the images to evaluate on can be read with its masks, such as .*4"):
        masked_images.split(samples[:9])


@pytest.mark.parametrize("part", ["images/page-0001.jpeg", "masks/rows/page-0001.png"])
def test_a_pipe_among_the_files_is_named_and_never_opened(folder, part):
    (folder / part).unlink()
    os.mkfifo(folder / part)
    with pytest.raises(ValueError, match=f"{part} is a directory, pipe, socket or device"):
        masked_images.list_samples(folder, MASKS)


def test_other_formats_and_decompression_bombs_are_skipped(folder):
    Image.new("RGB", (8, 8)).save(folder / "images" / "page-0000.jpeg", "BMP")
    Image.new("1", (20000, 20000)).save(folder / "images" / "page-0001.jpeg", "PNG")
    skipped = [item.what for item in arrays_of(folder) if isinstance(item, Skipped)]
    assert len(skipped) == 2
    assert "page-0000.jpeg" in skipped[0] and "page-0001.jpeg" in skipped[1] and "decompression bomb" in skipped[1]
