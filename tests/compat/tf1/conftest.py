"""Each module of tf.contrib is tested by itself, in graphs of a process that has TensorFlow 2's behaviour."""

import importlib
import sys

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train.compat.drop_in import old_paths
from estimator_train.compat.tf1 import contrib_modules

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    """A v1 graph, as model_fns and input_fns have it."""
    et.install()  # tf.contrib leads to tf.compat.v1.estimator
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        yield graph


@pytest.fixture
def contrib(monkeypatch):
    """The module tensorflow.contrib, which can be imported until the test ends."""
    monkeypatch.setattr(old_paths._FINDER, "providers", dict(old_paths._FINDER.providers))
    contrib_modules.install()
    yield importlib.import_module("tensorflow.contrib")
    for name in [name for name in sys.modules if name.startswith("tensorflow.contrib")]:
        del sys.modules[name]


@pytest.fixture
def run():
    """Runs fetches in a new session, after the initializers."""

    def run(fetches, steps=1):
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
            return [session.run(fetches) for _ in range(steps)][-1]

    return run


@pytest.fixture
def modules(monkeypatch):
    """Restores sys.modules, and the attributes of tensorflow.python, after the test."""
    monkeypatch.setattr(old_paths._FINDER, "providers", dict(old_paths._FINDER.providers))
    before = {path: module for path, module in sys.modules.items() if path.startswith("tensorflow.python.keras")}
    monkeypatch.setattr(sys.modules["tensorflow.python"], "keras", before["tensorflow.python.keras"])
    yield
    for path in [path for path in sys.modules if path.startswith("tensorflow.python.keras")]:
        del sys.modules[path]
    sys.modules.update(before)
