"""Iterators of datasets, and sessions with such, that are deleted without waiting for tf.data's autotuner.

The autotuner has a thread for each iterator: it looks at it after 10 ms, 20 ms, 40 ms and so on, at last once a minute,
and sleeps between. Who deletes the iterator wakes the thread and waits for its end. But TensorFlow 2.15 to 2.21 notes
that the iterator is cancelled only after it has woken the thread; where that looks too soon, it sleeps on to its next
time. So about a third of the deletions take up to as long as the dataset was read before, a minute at most. For one
device all else is done by then: buffers are freed, generators closed. For several each has an iterator and an autotuner
of its own, and that of the dataset itself is deleted after them.
"""

from __future__ import annotations

import threading

_SECONDS = 0.1  # a deletion takes a hundredth of it, but for that sleep and what a user's generator does at its end


def iterate(dataset):
    """Yields the elements of `dataset`, as its own iterator does.

    The traceback of an error of the data holds the iterator, which is then deleted with it.
    """
    iterators = [iter(dataset)]
    try:
        yield from iterators[0]
    finally:
        delete_in_background(iterators)


def delete_in_background(iterators):
    """Empties the list `iterators`, the only one to hold them; a slow deletion continues in a thread."""
    released = iterators.copy()
    iterators.clear()
    if threading.main_thread().is_alive():  # else Python ends, and starts no more threads
        _in_background(released.clear)


def close_in_background(session):
    """Has `session.close()`, which deletes the iterators of its graph, go on in a thread where that takes long.

    `session` is a tf.compat.v1.Session in this process.
    """
    close = session.close

    def close_once():
        del session.close
        if threading.main_thread().is_alive():
            _in_background(close)
        else:
            close()

    session.close = close_once


def _in_background(function):
    # No daemon: one that wakes while Python ends would abort the process in a destructor of TensorFlow's.
    thread = threading.Thread(target=function, name="deletes iterators", daemon=False)
    thread.start()
    thread.join(_SECONDS)
