import gc
import io
import pathlib
import struct
import weakref
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
    decode_pixels,
    to_rgb,
)
from estimator_train.input_fns.images.faults import fault_of_file

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
    "animated webp": lambda: encoded_frames("WEBP", 3),
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
    faults = {str(fault_of_file(path)).removeprefix("cannot be decoded: ") for path in paths}
    assert faults == {"no readable image; delete it", "an animated WebP; save one of its frames as an image"}


@pytest.mark.parametrize("name", OTHERS)
def test_encoded_images_of_other_formats_are_refused(name):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a readable image of at most 89478485 pixels"):
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
    large = f"cannot be decoded: its {width} x {height} pixels exceed 89478485"
    assert fault_of_file(str(path)).what == (large if too_large else "cannot be decoded: no readable image")


def test_pixels_of_a_jpeg_are_counted_in_the_header(tmp_path):
    path = tmp_path / "bomb.jpeg"
    IMAGES["gray.jpeg"].save(path)
    header = b"\xff\xc0\x00\x0b\x08"
    start = contents(path).index(header) + len(header)
    path.write_bytes(contents(path)[:start] + struct.pack(">2H", 9000, 10000) + contents(path)[start + 4 :])
    assert len(decode_files([str(path)], SIZE)[0]) == 0
    assert "its 10000 x 9000 pixels exceed 89478485" in fault_of_file(str(path)).what


def test_a_jpeg_cut_off_is_refused_before_the_decoder_prints_lines(capfd):
    content = encoded_frames("JPEG", 1)
    for encoded in (content[:-1], content[:-2], content[: len(content) // 2]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="it is a JPEG that is cut off"):
            decode_image(encoded, SIZE)
    assert capfd.readouterr().err == ""
    behind = decode_image(content + b"trailer", SIZE)
    np.testing.assert_array_equal(behind, decode_image(content, SIZE))


def test_a_graph_of_a_session_refuses_other_formats():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        encoded = tf.compat.v1.placeholder(tf.string, [None])
        spec = tf.TensorSpec((*SIZE, 3), tf.float32)
        images = tf.map_fn(lambda one: decode_image(one, SIZE), encoded, fn_output_signature=spec)
        assert session.run(images, {encoded: [encoded_frames("PNG", 1)] * 2}).shape == (2, *SIZE, 3)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a readable image"):
            session.run(images, {encoded: [encoded_frames("PNG", 1), encoded_frames("WEBP", 3)]})


@pytest.mark.slow
def test_a_graph_is_freed_that_has_decoded_images(paths):
    with tf.Graph().as_default() as graph:
        decode_files(paths, SIZE)
    kept = weakref.ref(graph)
    del graph
    gc.collect()
    assert kept() is None


TURNED = {
    1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}  # fmt: skip


@pytest.fixture(scope="module")
def photo():
    """A smooth picture without symmetry, 40 pixels high and 60 wide."""
    rows, columns = np.mgrid[0:40, 0:60]
    return Image.fromarray(np.stack([4 * columns, 5 * rows, 200 - 2 * rows], axis=-1).astype(np.uint8))


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def turned(photo, orientation, jfif, endian="<"):
    """Returns a JPEG stored as a camera does, whose EXIF orientation, in either byte order, turns it upright."""
    transpose = TURNED[orientation]
    image = photo if transpose is None else photo.transpose(transpose)
    content = saved(image, "JPEG", quality=98, subsampling=0)
    header = {"<": b"II*\x00", ">": b"MM\x00*"}[endian] + struct.pack(f"{endian}I", 8)
    tags = struct.pack(f"{endian}H", 2) + struct.pack(f"{endian}HHII", 0x010F, 2, 4, 0)  # the maker comes first
    tags += struct.pack(f"{endian}HHIHH", 0x0112, 3, 1, orientation, 0) + bytes(4)
    exif = b"Exif\x00\x00" + header + tags
    segment = b"\xff\xe1" + struct.pack(">H", 2 + len(exif)) + exif
    at = 20 if jfif else 2
    return content[:at] + segment + content[20:]


@pytest.mark.parametrize("serving", [False, True])
def test_a_photo_in_each_orientation_and_format_is_the_same_image(photo, serving):
    decode = tf.function(
        lambda encoded: decode_image(encoded, (20, 30), serving=serving),
        input_signature=[tf.TensorSpec([], tf.string)],
    )
    expected = decode(saved(photo, "PNG")).numpy()
    for orientation in TURNED:
        for jfif, endian in ((True, "<"), (False, ">")):
            image = decode(turned(photo, orientation, jfif, endian)).numpy()
            assert np.abs(image - expected).max() < 0.04 and np.abs(image - expected).mean() < 0.005, orientation
    assert np.abs(decode(saved(photo.convert("CMYK"), "JPEG", quality=98)).numpy() - expected).mean() < 0.005
    kinds = {"BMP": {}, "GIF": {}}
    kinds |= {} if serving else {"TIFF": {}}
    kinds |= {"WEBP": {"lossless": True}} if hasattr(tf.io, "decode_webp") or not serving else {}
    for kind, options in kinds.items():
        tolerance = 0.03 if kind == "GIF" else 1e-6  # of 256 colors
        assert np.abs(decode(saved(photo, kind, **options)).numpy() - expected).mean() < tolerance, kind


def test_the_orientation_can_be_ignored_and_fast_scales_the_right_sides(photo):
    encoded = turned(photo, 6, True)
    stored = decode_image(encoded, (60, 40), orient=False).numpy()
    np.testing.assert_array_equal(stored, with_three_channels(encoded, (60, 40)))
    large = turned(photo.resize((240, 160)), 6, True)
    assert tuple(decode_pixels(large, at_least=(20, 60))[..., 0].shape) == (40, 60)


@pytest.mark.parametrize("serving", [False, True])
def test_damaged_animated_and_huge_images_of_other_formats_are_refused(photo, serving):
    frames = {"save_all": True, "append_images": [photo.rotate(180)]}
    animated, first = (saved(photo, kind, **frames) for kind in ("WEBP", "GIF"))
    still = decode_image(first, (8, 8), serving=serving).numpy()
    assert np.abs(still - decode_image(saved(photo, "PNG"), (8, 8)).numpy()).mean() < 0.05
    bmp = bytearray(saved(photo, "BMP"))
    struct.pack_into("<ii", bmp, 18, 60_000, 60_000)
    for encoded in (animated, bytes(bmp), saved(photo, "WEBP")[:40], b"GIF89a", b"RIFF0000WEBPVP8X"):
        with pytest.raises(tf.errors.OpError):
            decode_image(encoded, (8, 8), serving=serving)


def test_16_bits_and_palettes_of_tiff_become_8_bits(photo):
    gray = np.arange(2400, dtype=np.uint16).reshape(40, 60) * 27
    pixels = decode_pixels(saved(Image.fromarray(gray), "TIFF")).numpy()
    np.testing.assert_array_equal(pixels[..., 0], gray >> 8)
    assert decode_pixels(saved(photo.quantize(16), "TIFF")).shape == (40, 60, 3)


def test_12_bits_of_tiff_become_8_bits_and_32_bits_are_refused():
    pixels = np.arange(0, 4096, 64, dtype=np.uint16).reshape(8, 8)
    np.testing.assert_array_equal(decode_pixels(tiff_of_12_bits(pixels))[..., 0], pixels >> 4)
    for dtype in ("float32", "int32"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a readable image"):
            decode_pixels(saved(Image.fromarray(pixels.astype(dtype)), "TIFF"))


def tiff_of_12_bits(pixels):
    """Returns a TIFF in which two pixels take three bytes."""
    first, second = pixels.reshape(-1, 2).astype(int).T
    content = np.stack([first >> 4, (first & 15) << 4 | second >> 8, second & 255], axis=1).astype(np.uint8).tobytes()
    height, width = pixels.shape
    tags = {256: width, 257: height, 258: 12, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: len(content)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    header = b"II*\x00" + struct.pack("<I", 8 + len(content))
    return header + content + struct.pack("<H", len(tags)) + entries + bytes(4)


@pytest.mark.parametrize("serving", [False, True])
def test_a_webp_is_turned_neither_in_training_nor_in_an_export(photo, serving):
    exif = Image.Exif()
    exif[0x0112] = 6
    encoded = saved(photo, "WEBP", lossless=True, exif=exif)
    if serving and not hasattr(tf.io, "decode_webp"):
        pytest.skip("this TensorFlow decodes no WebP")
    assert decode_pixels(encoded, serving=serving).shape == (40, 60, 3)


def test_resizing_squashes_crops_or_pads():
    image = np.zeros((20, 60), np.uint8)
    image[:, 20:40] = 255  # only this is in the middle square
    encoded = saved(Image.fromarray(image), "PNG")
    crop, pad = (decode_image(encoded, (10, 10), resize=resize).numpy()[..., 0] for resize in ("crop", "pad"))
    assert crop.min() > 0.9
    assert pad[:3].max() == pad[7:].max() == 0 and pad[4:6, 5].min() > 0.9 and pad[5, :2].max() < 0.1
    for size in ((7, 13), (13, 7)):
        assert decode_image(encoded, size, resize="crop").shape == (*size, 3)
        assert decode_image(encoded, size, resize="pad").shape == (*size, 3)


def test_an_export_pads_an_image_as_training_does():
    encoded = saved(Image.fromarray(np.full((37, 53), 255, np.uint8)), "PNG")
    padded = decode_image(encoded, (32, 24), resize="pad").numpy()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        bytes_of_image = tf.compat.v1.placeholder(tf.string, [])
        served = decode_image(bytes_of_image, (32, 24), resize="pad", serving=True)
        np.testing.assert_array_equal(session.run(served, {bytes_of_image: encoded}), padded)
    assert padded.max(axis=(0, 2)).min() == 1  # no column is black


def test_a_very_narrow_image_is_padded():
    line = saved(Image.fromarray(np.full((1, 500), 255, np.uint8)), "PNG")
    assert decode_image(line, (10, 10), resize="pad").numpy().max() == 1
