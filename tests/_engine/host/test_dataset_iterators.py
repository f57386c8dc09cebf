"""Iterators are deleted, and where that takes long, nobody waits for it."""

import itertools
import subprocess
import sys
import threading
import weakref

import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train._engine.host import dataset_iterators


class SlowToDelete:
    """Waits for `awake` when it is deleted, as a dataset's iterator may wait for the autotuner."""

    def __init__(self):
        self.awake, self.deleted = threading.Event(), threading.Event()

    def __del__(self):
        self.awake.wait(10)
        self.deleted.set()


def test_release_deletes():
    iterator = SlowToDelete()
    iterator.awake.set()
    deleted, held = iterator.deleted, [iterator]
    del iterator
    dataset_iterators.delete_in_background(held)
    assert held == [] and deleted.wait(10)


def test_the_end_of_python_waits_for_a_slow_deletion_but_release_does_not():
    iterator = SlowToDelete()
    awake, deleted, held = iterator.awake, iterator.deleted, [iterator]
    del iterator
    caller = threading.Thread(target=dataset_iterators.delete_in_background, args=(held,), daemon=True)
    caller.start()
    caller.join(10)
    assert held == [] and not deleted.is_set()
    assert {thread.daemon for thread in threading.enumerate() if thread.name == "deletes iterators"} == {False}
    awake.set()
    assert deleted.wait(10)


def test_python_ends_where_an_error_has_left_elements_half_read():
    script = """
from estimator_train._engine.host.dataset_iterators import iterate

class Data:
    def __iter__(self):
        return iter([1, 2])

def read():
    half_read = iterate(Data())
    next(half_read)
    raise OSError("the disk is full")

read()
"""
    ended = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 1 and ended.stderr.endswith("OSError: the disk is full\n")


@pytest.fixture
def released(monkeypatch):
    """A list with an entry per released iterator: True if nothing else referenced it or its parts."""
    released = []

    def release(held):
        parts = [*held, *tf.nest.flatten(held, expand_composites=True)]
        references = [weakref.ref(part) for part in parts]
        del parts
        held.clear()
        released.append(not any(reference() for reference in references))

    monkeypatch.setattr(dataset_iterators, "delete_in_background", release)
    return released


@pytest.mark.parametrize("taken", [1, 3, 4])
def test_elements_releases_the_iterator_at_the_end_or_when_closed(released, taken):
    elements = dataset_iterators.iterate(tf.data.Dataset.range(3))
    assert [int(element) for element in itertools.islice(elements, taken)] == list(range(3))[:taken]
    elements.close()
    assert released == [True]


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [None, 2])
def test_train_evaluate_and_predict_release_their_iterators(replicas, mirrored, released, tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    strategy = mirrored(replicas)
    config = et.RunConfig(model_dir=str(tmp_path), train_distribute=strategy, eval_distribute=strategy)
    estimator = et.model_to_estimator(model, config=config)

    def input_fn():
        return tf.data.Dataset.from_tensors((tf.zeros((2, 2)), tf.zeros((2, 1)))).repeat(4)

    estimator.train(input_fn)
    estimator.train(input_fn, steps=1)
    estimator.evaluate(input_fn)
    next(estimator.predict(input_fn))
    assert released == [True] * 4
