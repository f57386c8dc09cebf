"""Files that cannot be decoded are explained, each with its own remedy."""

import os

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_train.input_fns import image_files
from estimator_train.input_fns.images.faults import fault_of_file, faults_among


@pytest.fixture
def paths(tmp_path):
    """Four files in a folder cat: an image, one that is cut off, one that nobody may read, and a missing one."""
    paths = [tmp_path / "cat" / f"{name}.png" for name in ("good", "cut", "closed", "missing")]
    paths[0].parent.mkdir()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(paths[0])
    paths[1].write_bytes(paths[0].read_bytes()[:40])
    paths[2].write_bytes(paths[0].read_bytes())
    return list(map(str, paths))


@pytest.fixture
def closed(paths, monkeypatch):
    """Lets TensorFlow be refused the third file; root, who runs these tests in containers, may read any file."""
    read = tf.io.read_file

    def read_open(path):
        if os.fsdecode(path) == paths[2]:
            raise tf.errors.PermissionDeniedError(None, None, f"{paths[2]}; Permission denied")
        return read(path)

    monkeypatch.setattr(tf.io, "read_file", read_open)


def test_only_a_damaged_file_is_to_be_deleted(paths, closed):
    assert str(fault_of_file(paths[1])) == "cannot be decoded: no readable image; delete it"
    assert str(fault_of_file(paths[2])) == "cannot be read: permission denied; make it readable"
    assert str(fault_of_file(paths[3])) == "cannot be read: there is no such file; restore it"


def test_all_files_that_cannot_be_decoded_are_found(paths):
    good, cut, _, missing = paths
    assert list(faults_among([missing, good, good, cut], (4, 4))) == [missing, cut]


def test_the_error_of_a_pipeline_says_what_is_wrong(paths):
    with pytest.raises(tf.errors.InvalidArgumentError, match="cut.png. .cannot be decoded: no readable image; delete"):
        list(image_files(paths[:2], ["cat"], (4, 4), num_epochs=1)())


def animated(path):
    frames = [Image.fromarray(np.full((8, 8, 3), level, np.uint8)) for level in (0, 250)]
    frames[0].save(path, save_all=True, append_images=frames[1:])


def scanned(dtype):
    return lambda path: Image.fromarray(np.ones((8, 8), dtype)).save(path)


@pytest.mark.parametrize(
    "name, save, fault",
    [
        ("a.tif", scanned("float32"), "a TIFF of 32-bit floats, of which nothing says which value is white; con"),
        ("a.tif", scanned("int32"), "a TIFF of 32-bit signed integers, of which nothing says which value is white; c"),
        ("a.webp", animated, "an animated WebP; save one of its frames as an image"),
        ("a.jp2", scanned("uint8"), "a JPEG 2000 that TensorFlow does not decode; convert it to PNG"),
        ("a.jpg", lambda path: path.write_bytes(b"\0\0\0\x18ftypheic"), "TensorFlow reads no HEIC; convert it to JPEG"),
    ],
)  # fmt: skip
def test_an_intact_image_is_to_be_converted_and_not_deleted(tmp_path, name, save, fault):
    save(tmp_path / name)
    assert str(fault_of_file(str(tmp_path / name))).startswith(f"cannot be decoded: {fault}")
    assert not faults_among([str(tmp_path / name)], (4, 4))[str(tmp_path / name)].remedy.startswith("delete")


def test_an_image_of_a_refused_kind_that_is_cut_off_is_damaged(tmp_path):
    path = tmp_path / "a.tif"
    scanned("float32")(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert str(fault_of_file(str(path))) == "cannot be decoded: no readable image; delete it"
