"""Sixteen examples with a numeric pair, a number and a category, and the columns of a wide and of a deep model."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.canned import baseline, dnn, dnn_linear_combined, linear
from estimator_train.canned import v1 as canned_v1
from estimator_train.run_config import RunConfig

v1 = tf.compat.v1

KINDS = ("Classifier", "Regressor", "Estimator")


@pytest.fixture(params=["v2", "v1"])
def generation(request):
    """The canned estimators of tf.estimator or tf.compat.v1.estimator by name, and `is_v1`.

    By default they train from a seed, and write neither summaries nor graphs, because no test reads them.
    """
    modules = {"v2": (linear, dnn, dnn_linear_combined, baseline), "v1": (canned_v1,)}[request.param]
    config = RunConfig(tf_random_seed=3, save_summary_steps=None, checkpoint_save_graph_def=False)
    estimators = {
        name: functools.partial(value, config=config)
        for module in modules
        for name, value in vars(module).items()
        if name.endswith(KINDS)
    }
    return SimpleNamespace(**estimators, is_v1=request.param == "v1")


@pytest.fixture
def columns():
    """Returns the columns of the wide and of the deep model."""
    fc = tf.feature_column
    pair = fc.numeric_column("a", shape=(2,))
    buckets = fc.bucketized_column(fc.numeric_column("b"), [-0.5, 0.5])
    category = fc.categorical_column_with_vocabulary_list("c", ["x", "y", "z"])
    crossed = fc.crossed_column(["c", buckets], 5)
    wide = [pair, buckets, category, crossed]
    deep = [pair, buckets, fc.indicator_column(category), fc.embedding_column(category, 2)]
    return SimpleNamespace(wide=wide, deep=deep)


@pytest.fixture
def examples():
    """Gives an input_fn of batches of 8, in order, ten epochs; labels are what `labels` makes of 0s and 1s."""

    def make(keys="abc", labels=lambda label: label, batch_size=8):
        index = np.arange(16)
        features = {
            "a": np.stack([np.sin(index), np.cos(2 * index)], axis=1).astype("float32"),
            "b": np.sin(3 * index).astype("float32"),
            "c": np.array(["x", "y", "z"])[index % 3],
        }
        label = (np.sin(index) + np.cos(3 * index) > 0).astype("int64")[:, np.newaxis]
        tensors = {key: features[key] for key in keys}, labels(label)
        return lambda: tf.data.Dataset.from_tensor_slices(tensors).repeat(10).batch(batch_size)

    return make


@pytest.fixture
def initial_values(tmp_path):
    """Writes a checkpoint of variables of these shapes, 0.5 sin(1 + index) each."""

    def write(shapes):
        with tf.Graph().as_default(), v1.Session() as session:
            for name, shape in shapes.items():
                values = 0.5 * np.sin(1.0 + np.arange(np.prod(shape)))
                v1.get_variable(name, initializer=values.reshape(shape).astype("float32"))
            session.run(v1.global_variables_initializer())
            return v1.train.Saver().save(session, str(tmp_path / "initial"))

    return write
