import io
import pathlib
import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_train.input_fns.images.decoding import (
    MAX_PIXELS,
    decode_files,
    decode_image,
    decode_own_channels,
    fault_of_file,
    to_rgb,
)

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


def test_a_batch_may_mix_file_types_and_has_three_channels(paths):
    images, places = decode_files(paths, SIZE)
    assert places.numpy().tolist() == list(range(11))
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


def encoded_frames(file_format, number):
    file = io.BytesIO()
    frames = [Image.fromarray(COLOUR + index) for index in range(number)]
    frames[0].save(file, file_format, save_all=number > 1, append_images=frames[1:])
    return file.getvalue()


def png_header(width, height):
    chunk = b"IHDR" + struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))


OTHERS = {
    "webp": lambda: encoded_frames("WEBP", 1),
    "animated webp": lambda: encoded_frames("WEBP", 3),
    "gif": lambda: encoded_frames("GIF", 1),
    "animated gif": lambda: encoded_frames("GIF", 3),
    "bmp": lambda: encoded_frames("BMP", 1),
    "tiff": lambda: encoded_frames("TIFF", 1),
    "html": lambda: b"<!DOCTYPE html>",
    "empty": lambda: b"",
    "png signature alone": lambda: png_header(1, 1)[:12],
}


@pytest.mark.parametrize("fast", [False, True])
def test_other_formats_never_reach_a_decoder_whatever_their_name(tmp_path, fast):
    for name, encode in OTHERS.items():
        (tmp_path / f"{name}.jpeg").write_bytes(encode())
    paths = sorted(str(path) for path in tmp_path.iterdir())
    images, places = decode_own_channels(paths, SIZE, fast=fast)
    assert len(images) == len(places) == 0
    assert {fault_of_file(path).numpy() for path in paths} == {b"no readable JPEG or PNG"}


@pytest.mark.parametrize("name", OTHERS)
def test_encoded_images_of_other_formats_are_refused(name):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a JPEG or PNG of at most 89478485 pixels"):
        decode_image(OTHERS[name](), SIZE)


@pytest.mark.parametrize(
    ("width", "height", "too_large"),
    [(14000, 14000, True), (MAX_PIXELS + 1, 1, True), (MAX_PIXELS // 5, 5, False), (2**32 - 1, 2**32 - 1, False)],
)
def test_pixels_are_counted_in_the_header_before_decoding(tmp_path, width, height, too_large):
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(width, height))  # whatever passes the bound is damaged: nothing follows
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        decode_image(path.read_bytes(), SIZE)
    assert ("at most 89478485 pixels" in str(error.value)) == too_large
    fault = fault_of_file(str(path)).numpy().decode()
    large = f"its {width} x {height} pixels exceed 89478485 (scale it down)"
    assert fault == (large if too_large else "no readable JPEG or PNG")


def test_pixels_of_a_jpeg_are_counted_in_the_header(tmp_path):
    path = tmp_path / "bomb.jpeg"
    IMAGES["gray.jpeg"].save(path)
    header = b"\xff\xc0\x00\x0b\x08"
    start = contents(path).index(header) + len(header)
    path.write_bytes(contents(path)[:start] + struct.pack(">2H", 9000, 10000) + contents(path)[start + 4 :])
    assert len(decode_files([str(path)], SIZE)[0]) == 0
    assert fault_of_file(str(path)).numpy() == b"its 10000 x 9000 pixels exceed 89478485 (scale it down)"


def test_a_graph_of_a_session_refuses_other_formats():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        encoded = tf.compat.v1.placeholder(tf.string, [None])
        spec = tf.TensorSpec((*SIZE, 3), tf.float32)
        images = tf.map_fn(lambda one: decode_image(one, SIZE), encoded, fn_output_signature=spec)
        assert session.run(images, {encoded: [encoded_frames("PNG", 1)] * 2}).shape == (2, *SIZE, 3)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a JPEG or PNG"):
            session.run(images, {encoded: [encoded_frames("PNG", 1), encoded_frames("WEBP", 3)]})
