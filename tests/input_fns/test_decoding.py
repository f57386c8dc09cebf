import pathlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_train.input_fns.decoding import decode_files, decode_image, decode_own_channels, to_rgb

OCT2017 = pathlib.Path(__file__).parents[3] / "shared" / "data" / "OCT2017"
SIZE = (16, 24)
PIXELS = np.random.default_rng(3).integers(0, 256, (41, 50, 4), np.uint8)
GRAY, COLOUR = PIXELS[..., 0], PIXELS[..., :3]

IMAGES = {
    "gray.jpeg": Image.fromarray(GRAY),
    "colour.jpeg": Image.fromarray(COLOUR),
    "cmyk.jpeg": Image.fromarray(PIXELS, "CMYK"),
    "gray.png": Image.fromarray(GRAY),
    "gray16.png": Image.fromarray(GRAY.astype(np.uint16) * 200),
    "bits.png": Image.fromarray(GRAY > 99),
    "gray_alpha.png": Image.fromarray(np.ascontiguousarray(PIXELS[..., :2]), "LA"),
    "colour.png": Image.fromarray(COLOUR),
    "colour_alpha.png": Image.fromarray(PIXELS),
    "palette.png": Image.fromarray(COLOUR).quantize(16),
    "still.gif": Image.fromarray(COLOUR).quantize(16),
}
GRAYSCALE = ("gray.jpeg", "gray.png", "gray16.png", "bits.png", "gray_alpha.png")


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for name, image in IMAGES.items():
        image.save(folder / name)
    IMAGES["palette.png"].save(folder / "transparent_palette.png", transparency=3)
    return sorted(str(path) for path in folder.iterdir())


def with_three_channels(encoded, size=SIZE):
    image = tf.io.decode_jpeg(encoded, channels=3)
    return tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), size).numpy()


def contents(path):
    return pathlib.Path(path).read_bytes()


def test_all_kinds_of_files_in_one_batch_are_as_decoded_with_three_channels(paths):
    images, places = decode_files(paths, SIZE)
    assert places.numpy().tolist() == list(range(12))
    for path, image in zip(paths, images.numpy(), strict=True):
        np.testing.assert_array_equal(image, with_three_channels(contents(path)), path)


def test_one_image_is_as_decoded_with_three_channels(paths):
    for path in paths:
        image = decode_image(tf.io.read_file(path), SIZE)
        assert image.shape == (*SIZE, 3)
        np.testing.assert_array_equal(image, with_three_channels(contents(path)), path)


def test_grayscale_images_alone_have_one_channel_until_they_become_rgb(paths):
    paths = [path for path in paths if path.endswith(GRAYSCALE)]
    images, _ = decode_own_channels(paths, SIZE)
    assert images.shape == (len(GRAYSCALE), *SIZE, 1)
    np.testing.assert_array_equal(to_rgb(images), np.repeat(images, 3, axis=-1))


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (8, 9)])
def test_images_of_any_size_become_rgb_bit_for_bit(size):
    images = np.random.default_rng(1).random((7, *size, 1), np.float32)
    np.testing.assert_array_equal(to_rgb(tf.constant(images)), np.repeat(images, 3, axis=-1))


@pytest.mark.parametrize(
    ("size", "ratio"), [((31, 96), 1), ((32, 48), 2), ((64, 95), 2), ((70, 96), 4), ((127, 192), 4), ((128, 192), 8)]
)
def test_fast_scales_jpegs_down_in_the_decoder_as_far_as_they_are_larger(tmp_path, size, ratio):
    path = tmp_path / "scan.jpeg"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, size, np.uint8)).save(path)
    scaled = tf.image.convert_image_dtype(tf.io.decode_jpeg(contents(path), ratio=ratio), tf.float32)
    images, _ = decode_own_channels([str(path)], SIZE, fast=True)
    np.testing.assert_array_equal(images[0], tf.image.resize(scaled, SIZE))


def test_fast_leaves_other_files_than_jpegs_alone(paths):
    paths = [path for path in paths if not path.endswith("jpeg")]
    images, _ = decode_own_channels(paths, (4, 4), fast=True)
    for path, image in zip(paths, images.numpy(), strict=True):
        np.testing.assert_array_equal(image, with_three_channels(contents(path), (4, 4)), path)


@pytest.mark.skipif(not OCT2017.exists(), reason="no OCT2017 folder beside the repository")
def test_fast_oct_scans_are_near_the_exact_ones():
    paths = [str(path) for path in sorted(OCT2017.glob("*/*/*.jpeg"))]
    exact, fast = (decode_own_channels(paths, (224, 224), fast=fast)[0].numpy() for fast in (False, True))
    difference = np.abs(exact - fast)
    assert 0 < difference.mean() < 0.04 and difference.max() < 0.5
