"""tf.contrib.learn.datasets.mnist: the reader of MNIST that was also among TensorFlow's examples."""

import os

from estimator_train.compat.tf1 import mnist_files

DataSet, read_data_sets = mnist_files.DataSet, mnist_files.read_data_sets


def load_mnist(train_dir: str | os.PathLike[str] = "MNIST-data") -> mnist_files.Datasets:
    """Reads the four files of MNIST in a directory; `read_data_sets` has more arguments."""
    return read_data_sets(train_dir)
