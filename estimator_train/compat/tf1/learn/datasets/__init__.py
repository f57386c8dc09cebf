"""tf.contrib.learn.datasets: CSV files, and MNIST."""

from typing import Any

from estimator_train.compat.tf1.learn.datasets import base as base
from estimator_train.compat.tf1.learn.datasets import mnist as mnist

DATASETS = {"mnist": mnist.load_mnist}


def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Any:
    """Returns a dataset by its name, of which "mnist" is left; the other arguments were for datasets of texts.

    Raises ValueError if there is no dataset of this name.
    """
    if name not in DATASETS:
        raise ValueError(
            f"Name of dataset is not found: {name}; estimator_train has {', '.join(DATASETS)} alone. "
            "scikit-learn has load_iris"
        )
    return DATASETS[name]()
