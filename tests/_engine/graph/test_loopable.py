"""Graphs that loops can run, and why others make single steps."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_train._engine.graph.loopable import (
    changes_without_data,
    counts_by_one,
    refusal,
    step_ops,
    suit_one_thread,
)
from estimator_train._engine.session.private_tensorflow import global_step_read

v1 = tf.compat.v1


def read():
    return v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(1.0)).get_next()


def variable(name="w", **settings):
    return v1.get_variable(name, [], use_resource=settings.pop("use_resource", True), **settings)


def unordered():
    w = variable()
    return [w.assign_add(1.0).op, read() + w]


def ordered():
    w = variable()
    seen = read() + w
    with tf.control_dependencies([seen]):
        return [w.assign_add(1.0).op, tf.cond(seen > 0, lambda: seen, lambda: seen + 1), v1.random_uniform([])]


def writing_branch():
    w = variable()
    return [tf.cond(read() > 0, lambda: w.assign_add(1.0), lambda: w + 0), w + 1]


def drawing_branch():
    return [tf.cond(read() > 0, lambda: v1.random_uniform([]), lambda: 1.0)]


def python():
    return [tf.numpy_function(lambda: np.float32(1), [], tf.float32)]


def constants():
    return [tf.reduce_sum(tf.constant(np.zeros([5_000_000], np.float32)))]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (ordered, None),
        (unordered, "use w in any order"),
        (writing_branch, "use w in any order"),
        (drawing_branch, "a RandomUniform in a function"),
        (python, "a Python function may be its input"),
        (constants, "more than 16 MB of constants"),
        (lambda: [variable(use_resource=False) + read()], "uses a reference variable"),
        (lambda: [v1.placeholder(tf.float32, []) + read()], "is a Placeholder"),
        (lambda: [read() + read()], "2 iterators give its input"),
        (lambda: [tf.queue.FIFOQueue(1, [tf.float32]).dequeue()], "may keep a state of its own"),
    ],
)
def test_what_a_loop_could_change_is_refused(make, reason):
    with tf.Graph().as_default():
        why = refusal(step_ops(make()))
    assert why is None if reason is None else reason in why


def looping_branch():
    return [tf.cond(read() > 0, lambda: tf.while_loop(lambda x: x < 9, lambda x: [x + 1], [0.0])[0], lambda: 1.0)]


@pytest.mark.parametrize(
    ("make", "suit"),
    [
        (ordered, True),
        (looping_branch, False),
        (lambda: [tf.while_loop(lambda x: x < 9, lambda x: [x + 1], [read()])], False),
        (lambda: [read() + tf.numpy_function(lambda: np.float32(1), [], tf.float32)], False),
    ],
)
def test_steps_with_loops_or_python_functions_keep_their_pool_of_threads(make, suit):
    with tf.Graph().as_default():
        v1.train.create_global_step()
        assert suit_one_thread(step_ops([*tf.nest.flatten(make()), global_step_read()])) == suit


def test_steps_that_count_otherwise_are_found():
    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        seen = global_step_read()
        one, two = v1.assign_add(step, 1), v1.assign_add(step, 2)
        assert counts_by_one(step_ops([one, seen]), step)
        assert not counts_by_one(step_ops([two]), step) and not counts_by_one(step_ops([one, two]), step)
        assert not counts_by_one(step_ops([seen]), step)


def test_updates_that_need_no_batch_are_found():
    with tf.Graph().as_default():
        v1.train.create_global_step()
        w = variable()
        with tf.control_dependencies([read()]):
            fed = w.assign_add(1.0)
        assert not changes_without_data(step_ops([fed]))
        assert changes_without_data(step_ops([fed, variable("other").assign_add(1.0)]))
