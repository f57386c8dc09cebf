"""npz files, Fashion-MNIST and TFRecord files."""

import struct
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train.app import datasets, models
from estimator_train.app.datasets import fashion_mnist


def arrays(train=12, test=6, shape=(8, 6), classes=3):
    """Images whose every pixel is 20 times the class."""
    both = {}
    for side, number in {"train": train, "test": test}.items():
        y = np.arange(number) % classes
        both |= {
            f"x_{side}": np.ones((number, *shape), np.uint8) * (20 * y).reshape(-1, *[1] * len(shape)),
            f"y_{side}": y,
        }
    return {name: value.astype("uint8") for name, value in both.items()}


def save(path, **values):
    np.savez(path, **values)
    return path


@pytest.mark.parametrize("shape", [(8, 6), (8, 6, 1), (8, 6, 3)])
def test_an_npz_file_gives_rgb_images_and_one_hot_labels(tmp_path, shape):
    data = datasets.open_dataset("npz", save(tmp_path / "a.npz", **arrays(shape=shape), class_names=["x", "y", "z"]))
    assert data.class_names == ("x", "y", "z")
    assert (data.train_examples, data.eval_examples, data.image_size) == (12, 6, (8, 6))
    batches = list(data.eval_input_fn(image_size=(4, 5), batch_size=4)())
    assert [images.shape for images, _ in batches] == [(4, 4, 5, 3), (2, 4, 5, 3)]
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    np.testing.assert_allclose(images.mean((1, 2, 3)) * 255, [0, 20, 40] * 2, atol=1e-4)
    np.testing.assert_array_equal(labels, np.eye(3)[[0, 1, 2] * 2])


def test_training_on_an_npz_file_is_shuffled_and_static_in_shape(tmp_path):
    data = datasets.open_dataset("npz", save(tmp_path / "a.npz", **arrays()))
    dataset = data.train_input_fn(image_size=data.image_size, batch_size=12, num_epochs=2, seed=1)()
    assert dataset.element_spec[0].shape == (None, 8, 6, 3)
    first, second = (labels.numpy().argmax(1).tolist() for _, labels in dataset)
    assert sorted(first) == sorted(second) and first != second


def test_a_limit_of_an_npz_file_is_stratified(tmp_path):
    data = datasets.open_dataset("npz", save(tmp_path / "a.npz", **arrays(train=60)), limit=6)
    assert data.class_counts() == {"train": {"0": 2, "1": 2, "2": 2}, "eval": {"0": 2, "1": 2, "2": 2}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.zeros((12, 5))}, r"x_train must be images of shape .*, got \(12, 5\)"),
        ({"x_test": np.zeros((5, 8, 6))}, "x_test and y_test must have the same length above 0, got 5 and 6"),
        ({"y_train": np.zeros(12)}, "y_train must be class indices of shape .*, got float64"),
        ({"class_names": ["a", "b"]}, "has class 2, but there are 2 class_names"),
        ({"y_test": np.array([None])}, "is not an npz file of arrays"),
        ({"y_train": np.arange(12) % 2 * 10**18}, f"y_train or y_test has class {10**18}; number the classes from 0"),
        ({"x_train": np.zeros((12, 8, 6), [("r", "u1")])}, "x_train must be images of integers or floats, got "),
        ({"x_train": np.zeros((12, 8, 6), complex)}, "must be images of integers or floats, got complex128"),
        ({"x_train": np.zeros((12, 8, 6), "longdouble")}, "must be images of integers or floats, got (float128|longd)"),
        ({"class_names": [["a", "b", "c"]]}, r"class_names must have shape \(n,\), got \(1, 3\)"),
    ],
)
def test_npz_files_of_something_else_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        datasets.open_dataset("npz", save(tmp_path / "a.npz", **{**arrays(), **change}))


@pytest.mark.parametrize("shape", ["(3000000000000000, 8, 6)", "(10000000000000000000000, 8, 6)"])
def test_a_header_that_claims_more_than_the_file_has_is_refused(shape, tmp_path):
    path = save(tmp_path / "a.npz", **{name: value for name, value in arrays().items() if name != "x_train"})
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x_train.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(100))
    with pytest.raises(ValueError, match=r"x_train claims the shape .* but has \d+ bytes"):
        datasets.open_dataset("npz", path)


def test_an_array_that_is_there_twice_is_refused(tmp_path):
    path = save(tmp_path / "a.npz", **arrays())
    with zipfile.ZipFile(path, "a") as archive:
        member = archive.read("x_train.npy")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("x_train.npy", member)
    with pytest.raises(ValueError, match="it has 2 arrays x_train"):
        datasets.open_dataset("npz", path)


def test_what_is_no_npz_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="npz needs --data-dir"):
        datasets.open_dataset("npz")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        datasets.open_dataset("npz", tmp_path / "nowhere.npz")
    (tmp_path / "text.npz").write_text("text")
    with pytest.raises(ValueError, match="text.npz is not an npz file"):
        datasets.open_dataset("npz", tmp_path / "text.npz")
    with pytest.raises(ValueError, match="has no x_test, y_test"):
        datasets.open_dataset("npz", save(tmp_path / "a.npz", x_train=np.zeros(3), y_train=np.zeros(3)))


@pytest.fixture
def downloads(monkeypatch):
    """Counts the loads by Keras' loader, which gives 40 and 20 images."""
    calls = []

    def load_data():
        calls.append(1)
        made = arrays(40, 20, (28, 28), 10)
        return (made["x_train"], made["y_train"]), (made["x_test"], made["y_test"])

    monkeypatch.setattr(keras.datasets.fashion_mnist, "load_data", load_data)
    fashion_mnist._load.cache_clear()
    yield calls
    fashion_mnist._load.cache_clear()


def test_fashion_mnist_has_the_blogs_settings_and_loads_when_read(downloads):
    data = datasets.open_dataset("fashion_mnist")
    assert (data.default_model, data.default_batch_size, data.default_epochs) == ("fashion_mnist_cnn", 512, 5)
    assert (data.train_examples, data.eval_examples, len(data.class_names)) == (60_000, 10_000, 10)
    assert not downloads
    images, labels = next(iter(data.eval_input_fn(image_size=(28, 28), batch_size=20)()))
    next(iter(data.train_input_fn(image_size=(28, 28), batch_size=20, num_epochs=None, seed=1)()))
    assert downloads == [1]
    np.testing.assert_allclose(images[3] * 255, np.full((28, 28, 3), 60), atol=1e-3)

    model = models.build_model("convnet", image_size=data.image_size, num_classes=10)
    assert [layer.filters for layer in model.layers if hasattr(layer, "filters")] == [32, 64]
    assert model.evaluate(images, labels, verbose=0)[0] > 0


def test_fashion_mnist_can_be_limited(downloads):
    data = datasets.open_dataset("fashion_mnist", limit=10)
    assert (data.train_examples, data.eval_examples) == (10, 10)
    ((_, labels),) = data.eval_input_fn(image_size=(28, 28), batch_size=20)()
    np.testing.assert_array_equal(labels.numpy().sum(0), np.ones(10))


def test_fashion_mnist_offline_is_one_line(monkeypatch):
    def load_data():
        raise Exception("URL fetch failure on https://storage.googleapis.com/x: None --\n[Errno -2] unknown")

    monkeypatch.setattr(keras.datasets.fashion_mnist, "load_data", load_data)
    fashion_mnist._load.cache_clear()
    with pytest.raises(ConnectionError, match="^fashion_mnist could not be downloaded; connect once, or put .*$"):
        datasets.download("fashion_mnist")
    with pytest.raises(ValueError, match="leave out --data-dir"):
        datasets.open_dataset("fashion_mnist", "folder")


@pytest.fixture
def records(tmp_path):
    def write(name, labels):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for label in labels:
                encoded = tf.io.encode_png(np.full((6, 8, 1), 50 * label, np.uint8)).numpy()
                features = {
                    "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
                    "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())

    write("train-00000-of-00002", [0, 1, 0])
    write("train-00001-of-00002", [1, 1])
    write("validation.tfrecord", [1, 0, 1])
    (tmp_path / "labels.txt").write_text("0:cat\ndog\n")
    return tmp_path


def test_tfrecord_files_are_counted_and_read(records):
    data = datasets.open_dataset("tfrecord", records)
    assert (data.train_examples, data.eval_examples, data.class_names) == (5, 3, ("cat", "dog"))
    ((images, labels),) = data.eval_input_fn(image_size=(3, 4), batch_size=8)()
    assert images.shape == (3, 3, 4, 3)
    np.testing.assert_allclose(images[:, 0, 0, 0] * 255, [50, 0, 50], atol=1e-4)
    np.testing.assert_array_equal(labels, [[0, 1], [1, 0], [0, 1]])
    trained = data.train_input_fn(image_size=(3, 4), batch_size=5, num_epochs=2, seed=1)()
    assert [labels.numpy().sum(0).tolist() for _, labels in trained] == [[2, 3], [2, 3]]


def test_pipelines_share_tfrecord_files(records):
    input_fn = datasets.open_dataset("tfrecord", records).eval_input_fn(image_size=(3, 4), batch_size=8)
    shards = [input_fn(tf.distribute.InputContext(2, index)) for index in (0, 1)]
    assert [sum(len(labels) for _, labels in shard) for shard in shards] == [2, 1]


def test_bad_tfrecord_files_are_refused(records):
    with pytest.raises(ValueError, match="tfrecord cannot be limited"):
        datasets.open_dataset("tfrecord", records, limit=2)
    (records / "labels.txt").write_text("cat\n")
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be below 1, the lines of labels.txt"):
        list(datasets.open_dataset("tfrecord", records).eval_input_fn(image_size=(3, 4), batch_size=8)())
    torn = records / "validation.tfrecord"
    torn.write_bytes(torn.read_bytes()[:-3])
    with pytest.raises(ValueError, match="validation.tfrecord is not an uncompressed TFRecord file, or is truncated"):
        datasets.open_dataset("tfrecord", records)
    torn.unlink()
    with pytest.raises(FileNotFoundError, match=r"no TFRecord files named test\* or val\*"):
        datasets.open_dataset("tfrecord", records)
    (records / "labels.txt").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="labels.txt is not UTF-8 text"):
        datasets.open_dataset("tfrecord", records)
    (records / "labels.txt").write_text("\n")
    with pytest.raises(ValueError, match="labels.txt is empty: write the name of each class"):
        datasets.open_dataset("tfrecord", records)
    (records / "labels.txt").unlink()
    with pytest.raises(FileNotFoundError, match="there is no .*labels.txt: write the name of each class"):
        datasets.open_dataset("tfrecord", records)


def test_an_encoded_image_of_another_format_is_refused(tmp_path):
    gif = b"GIF89a" + bytes(20)
    feature = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[gif])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[0])),
    }
    for name in ("train.tfrecord", "test.tfrecord"):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    (tmp_path / "labels.txt").write_text("a\nb\n")
    data = datasets.open_dataset("tfrecord", tmp_path)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a JPEG or PNG of at most 89478485 pixels"):
        list(data.eval_input_fn(image_size=(8, 8), batch_size=1)())
