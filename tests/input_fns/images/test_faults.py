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
