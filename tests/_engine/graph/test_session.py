"""Sessions on a model_fn's graph run like those of TensorFlow, close without waiting, and are deleted once closed."""

import collections
import functools
import gc
import threading

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train._engine.graph.session import GraphSessionCreator

v1 = tf.compat.v1


def wait_for_threads():
    for thread in threading.enumerate():
        if thread.name == "deletes iterators":
            thread.join(10)


@pytest.fixture
def closing(monkeypatch):
    """Sessions close when this event is set; its list `order` says what they did."""
    gc.collect()  # sessions of other tests
    gc.freeze()  # what these have left takes a second to look through again
    wait_for_threads()
    close, delete = v1.Session.close, v1.Session.__del__
    may_close = threading.Event()
    may_close.order = []

    def close_late(session):
        may_close.wait(10)
        close(session)
        may_close.order.append("closed")

    def note_deletion(session):
        may_close.order.append("deleted")
        delete(session)

    monkeypatch.setattr(v1.Session, "close", close_late)
    monkeypatch.setattr(v1.Session, "__del__", note_deletion)
    return may_close


def open_session(tmp_path):
    v1.train.create_global_step()
    return GraphSessionCreator(v1.train.Scaffold(), et.RunConfig(tmp_path), None).create_session()


def test_closing_a_session_waits_for_no_slow_iterator(closing, graph, tmp_path):
    session = open_session(tmp_path)
    session.close()
    session.close()
    assert closing.order == []
    closing.set()
    del session
    wait_for_threads()
    assert closing.order == ["closed", "deleted"]


@pytest.mark.parametrize("closed", [True, False])
def test_garbage_collection_deletes_a_session_once_it_is_closed(closed, closing, graph, tmp_path):
    def predict(session):
        try:
            yield
        finally:
            if closed:
                session.close()

    predictions = predict(open_session(tmp_path))
    next(predictions)
    cycle = [predictions]
    cycle.append(cycle)
    del predictions, cycle
    gc.collect()
    assert closing.order == []
    closing.set()
    wait_for_threads()
    assert closing.order == ["closed", "deleted"]


def test_a_session_gives_and_raises_what_that_of_tensorflow_does(graph, tmp_path):
    variable = v1.get_variable("variable", initializer=3.0)
    number = v1.placeholder_with_default(-1, [], "number")
    fails = tf.gather([1, 2], number, name="fails")
    sparse = tf.sparse.from_dense([[0, 5]])
    fetches = collections.defaultdict(list, {"a": [variable, variable.initializer, "number:0"], "b": (sparse, number)})
    session = open_session(tmp_path)
    sides = [functools.partial(run, session) for run in (v1.Session.run, type(session).run, type(session).run)]
    for given in (fetches, [], {"caller": number}, variable):
        theirs, *ours = [run(given) for run in sides]
        assert [str(values) for values in ours] == [str(theirs)] * 2 and type(ours[0]) is type(theirs)
    metadata = v1.RunMetadata()
    session.run(number, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=metadata)
    assert metadata.step_stats.dev_stats and session.run(number, {number: 7}) == 7
    for wrong in (None, [object()], "missing:0"):
        errors = [pytest.raises((TypeError, ValueError, KeyError), run, wrong).value for run in sides[:2]]
        assert type(errors[0]) is type(errors[1])
    theirs, ours = [pytest.raises(tf.errors.InvalidArgumentError, run, fails).value for run in sides[:2]]
    assert ours.op is theirs.op is fails.op and ours.message == theirs.message and __file__ in ours.message
    session.close()
    wait_for_threads()
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(number)


def test_the_fetches_of_each_step_are_looked_up_once(graph, monkeypatch, tmp_path):
    made = []
    make = v1.Session.make_callable
    monkeypatch.setattr(v1.Session, "make_callable", lambda *given, **more: made.append(given) or make(*given, **more))
    number, session = tf.constant(1), open_session(tmp_path)
    assert [session.run({"caller": [number]}) for _ in range(5)] == [{"caller": [1]}] * 5 and len(made) == 1
