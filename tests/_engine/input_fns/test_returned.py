"""An input_fn may make its batches in a v1 graph, of its own parts alone."""

import numpy as np
import pytest
import tensorflow as tf
from models import growing

import estimator_train as et
from estimator_train._engine.input_fns.returned import dataset_of_graph

v1 = tf.compat.v1


class InitializeIterator(et.SessionRunHook):
    def after_create_session(self, session, coord):
        session.run(self.initializer, self.feed)


@pytest.mark.parametrize("replicas", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_hook_feeds_the_initializer_of_an_input_fns_iterator(replicas, mirrored, tmp_path):
    hook = InitializeIterator()

    def input_fn():
        fed = v1.placeholder(tf.float32, [6, 1])
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices((fed, fed)).batch(1))
        hook.initializer, hook.feed = iterator.initializer, {fed: np.ones([6, 1])}
        return iterator.get_next()

    estimator = growing("keras", et.RunConfig(tmp_path, train_distribute=mirrored(replicas)))
    estimator.train(input_fn, hooks=[hook])
    assert estimator.get_variable_value("global_step") == 6 / (replicas or 1)
    assert len(list(estimator.predict(input_fn, hooks=[hook]))) == 6


def test_an_iterator_of_a_dataset_from_outside_is_refused():
    outside = tf.data.Dataset.range(3)
    with pytest.raises(ValueError, match="created outside of it: create each part of the input inside the input_fn"):
        dataset_of_graph(lambda: v1.data.make_one_shot_iterator(outside).get_next())
