import numpy as np
import pytest
import tensorflow as tf
from records import write_records

from estimator_train.app import datasets


@pytest.fixture
def records(tmp_path):
    def write(name, labels):
        write_records(tmp_path / name, ((np.full((6, 8, 1), 50 * label, np.uint8), label) for label in labels))

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


@pytest.mark.slow
def test_seed_0_is_a_seed_from_the_first_epoch_on(records):
    write_records(records / "train-00002-of-00002", ((np.zeros((6, 8, 1), np.uint8), label % 2) for label in range(40)))
    data = datasets.open_dataset("tfrecord", records)

    def order(seed):
        batches = data.train_input_fn(image_size=(3, 4), batch_size=45, num_epochs=2, seed=seed)()
        return [labels.numpy()[:, 0].tolist() for _, labels in batches]

    first, again, other = order(0), order(0), order(1)
    assert first == again and first[0] != first[1] and first != other


def test_a_byte_order_mark_is_no_part_of_the_first_class(records):
    (records / "labels.txt").write_text("cat\ndog\n", encoding="utf-8-sig")
    assert datasets.open_dataset("tfrecord", records).class_names == ("cat", "dog")


def test_validation_files_beside_test_files_choose(records):
    data = datasets.open_dataset("tfrecord", records)
    with pytest.raises(ValueError, match="tfrecord cannot hold out validation examples: give it its own"):
        data.with_validation(0.1)
    write_records(records / "test.tfrecord", [(np.zeros((6, 8, 1), np.uint8), 0)] * 2)
    data = datasets.open_dataset("tfrecord", records)
    assert (data.eval_examples, data.validation_examples, data.to_choose_on().eval_examples) == (2, 3, 3)
    assert not data.with_validation(0).validation_examples


@pytest.mark.slow
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
    for name in ("train.tfrecord", "test.tfrecord"):
        write_records(tmp_path / name, [(gif, 0)])
    (tmp_path / "labels.txt").write_text("a\nb\n")
    data = datasets.open_dataset("tfrecord", tmp_path)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a readable image of at most 89478485 pixels"):
        list(data.eval_input_fn(image_size=(8, 8), batch_size=1)())
