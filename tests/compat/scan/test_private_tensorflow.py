"""TensorFlow and tf_keras keep what they export where scan reads it."""

from estimator_train.compat.scan import private_tensorflow
from estimator_train.compat.scan.installed import file_of, paths_of
from estimator_train.compat.scan.private_tensorflow import API


def test_the_modules_of_the_public_names_are_files():
    for module in (
        f"{API}.compat.v1.train",
        private_tensorflow.keras_module(),
        private_tensorflow.keras_module("v1", "optimizers"),
    ):
        assert file_of(module).suffix == ".py", module


def test_tensorflow_says_where_it_adds_the_modules_of_tf_keras():
    assert private_tensorflow.keras_module().removesuffix(".keras") in paths_of("tensorflow")
    assert private_tensorflow.keras_module("v1", "__internal__.legacy") in paths_of(f"{API}.compat.v1")
