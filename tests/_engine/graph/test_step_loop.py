"""StepLoop: steps of a graph in one call of a plain session."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_train._engine.graph.step_loop import LoopedGraph, StepLoop

v1 = tf.compat.v1
BATCHES = 7


@pytest.fixture
def session():
    """A session on a graph that adds up what it reads, which is NaN in the fifth batch, and draws a number."""
    with LoopedGraph().as_default() as graph:
        batches = tf.data.Dataset.range(BATCHES).map(lambda index: tf.where(tf.equal(index, 4), np.nan, 1.0))
        iterator = v1.data.make_initializable_iterator(batches)
        graph.start = iterator.initializer
        graph.read = iterator.get_next()
        graph.total = v1.get_variable("total", [], initializer=v1.zeros_initializer(), use_resource=True)
        graph.add = graph.total.assign_add(1.0).op
        graph.drawn = graph.read + v1.random_uniform([], seed=1)
        graph.pair = tf.stack([graph.read, 2.0], name="pair")
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), graph.start])
            graph.finalize()
            yield session


def run(session, loop, elements, limit, seconds=9.0):
    fetches = loop.fetches(elements)
    return session.run([loop.count, *(fetches[each] for each in elements)], {loop.limit: limit, loop.seconds: seconds})


def test_a_call_ends_at_its_limit_at_a_nan_and_where_there_is_no_data(session):
    graph = session.graph
    loop = StepLoop([graph.add, graph.read], graph.read)
    count, read, pair, none = run(session, loop, [graph.read, graph.pair, graph.add], 3)
    assert (count, read, none, session.run(graph.total)) == (3, 1, None, 3)
    np.testing.assert_array_equal(pair, [1, 2])
    count, read = run(session, loop, [graph.read], 3)
    assert (count, session.run(graph.total)) == (2, 5) and np.isnan(read)
    assert run(session, loop, [graph.read], 9, seconds=0.0) == [1, 1]
    assert run(session, loop, [graph.read], 9) == [1, 1]  # the last
    assert run(session, loop, [], 9) == [0] and session.run(graph.total) == BATCHES


def test_calls_with_other_fetches_draw_the_next_random_numbers(session):
    graph = session.graph
    loop = StepLoop([graph.drawn], None)
    drawn = [run(session, loop, elements, 1)[1] for elements in ([graph.drawn], [graph.drawn, graph.pair])]
    session.run(graph.start)
    expected = [session.run(graph.drawn) for _ in range(2)]  # by kernels of their own, which begin anew
    assert drawn == expected


def test_graph_defs_are_without_the_loop_and_the_graph_is_finalized(session):
    graph = session.graph
    before = graph.as_graph_def()
    loop = StepLoop([graph.add, graph.read], None)
    loop.fetches([graph.pair])
    assert graph.as_graph_def() == before and graph.finalized
    assert len(graph.get_operations()) > len(before.node)
