"""Iterators are deleted, and where that takes long, nobody waits for it."""

import itertools
import threading
import weakref

import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train import iterators


class Iterator:
    """Whose deletion waits for `awake`, as that of a data set's iterator may for the autotuner."""

    def __init__(self):
        self.awake, self.deleted = threading.Event(), threading.Event()

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration

    def __del__(self):
        self.awake.wait(10)
        self.deleted.set()


def test_release_deletes():
    iterator = Iterator()
    iterator.awake.set()
    deleted, held = iterator.deleted, [iterator]
    del iterator
    iterators.release(held)
    assert deleted.is_set() and held == []


def test_release_does_not_wait_for_a_deletion_that_takes_long():
    iterator = Iterator()
    awake, deleted, held = iterator.awake, iterator.deleted, [iterator]
    del iterator
    iterators.release(held)
    assert held == [] and not deleted.is_set()
    awake.set()
    assert deleted.wait(10)


@pytest.fixture
def released(monkeypatch):
    """A list of which iterators were released: True where nothing else held them."""
    released = []

    def release(held):
        references = [weakref.ref(iterator) for iterator in held]
        held.clear()
        released.extend(reference() is None for reference in references)

    monkeypatch.setattr(iterators, "release", release)
    return released


@pytest.mark.parametrize("taken", [1, 3, 4])
def test_elements_releases_the_iterator_at_the_end_of_the_data_or_of_interest(released, taken):
    elements = iterators.elements(tf.data.Dataset.range(3))
    assert [int(element) for element in itertools.islice(elements, taken)] == list(range(3))[:taken]
    elements.close()
    assert released == [True]


def test_train_evaluate_and_predict_release_their_iterators(released, tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(model, model_dir=str(tmp_path))

    def input_fn():
        return tf.data.Dataset.from_tensors((tf.zeros((2, 2)), tf.zeros((2, 1)))).repeat(3)

    estimator.train(input_fn)
    estimator.train(input_fn, steps=1)
    estimator.evaluate(input_fn)
    next(estimator.predict(input_fn))
    assert released == [True] * 4
