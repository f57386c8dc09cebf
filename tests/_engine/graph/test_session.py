"""Sessions on a model_fn's graph are closed without waiting, and deleted only when they are closed."""

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
