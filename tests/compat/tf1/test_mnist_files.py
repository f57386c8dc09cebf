"""tensorflow.examples.tutorials.mnist.input_data, with the results of TensorFlow 1.15.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran these tests once on the same files, and all
hold there, but that it takes folders as texts alone, downloads what is missing, and says "MNIST label file".
"""

import gzip

import numpy as np
import pytest
import tensorflow as tf

import estimator_train as et

NUMBERS = {"train": 5, "t10k": 2}


@pytest.fixture(autouse=True)
def installed():
    et.install()


@pytest.fixture
def folder(tmp_path):
    """The four files of a small MNIST: image i has the value i everywhere, and the label i."""
    for part, number in NUMBERS.items():
        values = np.arange(number, dtype=np.uint8)
        images = np.repeat(values, 784).tobytes()
        header = np.array([0x803, number, 28, 28], ">u4").tobytes()
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + images))
        header = np.array([0x801, number], ">u4").tobytes()
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(header + values.tobytes()))
    return tmp_path


def read(*arguments, **options):
    from tensorflow.examples.tutorials.mnist import input_data

    return input_data.read_data_sets(*arguments, **options)


def test_the_first_training_images_are_for_validation(folder):
    data = read(str(folder), one_hot=True, validation_size=2)
    assert [part.num_examples for part in data] == [3, 2, 2]
    assert data.train.images.shape == (3, 784) and data.train.images.dtype == np.float32
    assert data.train.images[:, 0] == pytest.approx([2 / 255, 3 / 255, 4 / 255])
    assert data.validation.labels.tolist() == np.eye(10)[:2].tolist()
    whole = read(folder, dtype=tf.uint8, reshape=False, validation_size=0).train
    assert whole.images.shape == (5, 28, 28, 1) and whole.images.dtype == np.uint8
    assert whole.labels.tolist() == [0, 1, 2, 3, 4]


def test_batches_continue_into_the_next_epoch_in_a_new_order(folder):
    train = read(folder, dtype=tf.uint8, validation_size=0, seed=1).train
    found = []
    for _ in range(3):
        images, labels = train.next_batch(3)
        assert images[:, 0].tolist() == labels.tolist()
        found.append(labels.tolist())
    # numpy.random.seed(1) at first, then a shuffle of the order before it for each epoch, as in TensorFlow 1.15.
    order = np.arange(5)
    random = np.random.RandomState(1)
    expected = []
    for _ in range(2):
        shuffled = np.arange(5)
        random.shuffle(shuffled)
        order = order[shuffled]
        expected.extend(order.tolist())
    assert sum(found, []) == expected[:9]
    assert train.epochs_completed == 1
    assert read(folder, validation_size=0).train.next_batch(4, shuffle=False)[1].tolist() == [0, 1, 2, 3]


def test_fake_data_needs_no_files():
    images, labels = read("nowhere", fake_data=True, one_hot=True).train.next_batch(2, fake_data=True)
    assert images == [[1] * 784] * 2 and labels == [[1] + [0] * 9] * 2


def test_bad_files_are_refused_in_one_line(folder):
    with pytest.raises(
        FileNotFoundError, match=r"does not exist.*into .*nowhere, or read it with tf.keras.datasets.mnist"
    ):
        read(folder / "nowhere")
    with pytest.raises(ValueError, match=r"Validation size should be between 0 and 5. Received: 5000."):
        read(folder)
    with pytest.raises(TypeError, match="Invalid image dtype tf.int32, expected uint8 or float32"):
        read(folder, validation_size=0, dtype=tf.int32)
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
    with pytest.raises(ValueError, match="Invalid magic number 2051 in MNIST file: .*t10k-labels"):
        read(folder)
