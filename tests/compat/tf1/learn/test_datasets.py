"""tf.contrib.learn.datasets, with what TensorFlow 1.15.5 returns for the same files.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran the lines of the first two tests, with
`datasets = tf.contrib.learn.datasets`, and gave these arrays. It also has "boston", "dbpedia" and "iris".
"""

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.compat.tf1.learn import datasets

ROWS = "1.5,2.5,0\n3,4,1\n-1,1e-1,2\n"


def check(found, data, target):
    np.testing.assert_array_equal(found.data, np.array(data, found.data.dtype))
    np.testing.assert_array_equal(found.target, target)


def test_a_csv_file_with_a_header_has_the_size_that_it_says(tmp_path):
    path = tmp_path / "iris.csv"
    path.write_text(f"3,2,setosa,versicolor\n{ROWS}")
    read = datasets.base.load_csv_with_header
    found = read(filename=str(path), target_dtype=np.int32, features_dtype=np.float32)
    check(found, [[1.5, 2.5], [3, 4], [-1, 0.1]], [0, 1, 2])
    assert found.data.dtype == np.float32 and found.target.dtype == np.int32
    check(read(path, np.float32, np.float64, 0), [[2.5, 0], [4, 1], [0.1, 2]], [1.5, 3, -1])
    path.write_text(f"5,2\n{ROWS}")
    check(read(path, int, float), [[1.5, 2.5], [3, 4], [-1, 0.1], [0, 0], [0, 0]], [0, 1, 2, 0, 0])


def test_a_csv_file_without_a_header_is_read_whole(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    read = datasets.base.load_csv_without_header
    check(read(path, np.int32, np.float32), [[1.5, 2.5], [3, 4], [-1, 0.1]], [0, 1, 2])
    found = read(path, np.float32, np.float32, target_column=1)
    check(found, [[1.5, 0], [3, 1], [-1, 2]], np.float32([2.5, 4, 0.1]))


def test_mnist_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="MNIST-data"):
        datasets.load_dataset("mnist")
    assert datasets.DATASETS["mnist"] is datasets.mnist.load_mnist
    with pytest.raises(ValueError, match="Name of dataset is not found: iris; .* scikit-learn has load_iris"):
        datasets.load_dataset("iris")


@pytest.mark.parametrize(
    "statement",
    [
        "from tensorflow.contrib.learn.python.learn.datasets import base; found = base.load_csv_with_header",
        "from tensorflow.contrib.learn.python.learn.datasets.base import load_csv_with_header as found",
        "import tensorflow.contrib.learn as learn; found = learn.datasets.base.load_csv_with_header",
    ],
)
def test_every_way_to_a_reader_leads_to_ours(statement, contrib):
    scope = {}
    exec(statement, scope)
    assert scope["found"] is datasets.base.load_csv_with_header


def test_mnist_is_read_by_the_reader_of_the_examples(contrib):
    from tensorflow.contrib.learn.python.learn.datasets.mnist import read_data_sets

    images, labels = read_data_sets("nowhere", fake_data=True, dtype=tf.uint8).test.next_batch(1, fake_data=True)
    assert len(images[0]) == 784 and labels == [0]
