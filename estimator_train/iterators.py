"""Iterators of data sets that are deleted without waiting for tf.data's autotuner.

The autotuner has a thread for each iterator: it looks at it after 10 ms, 20 ms, 40 ms and so on, at last once a minute,
and sleeps between. Who deletes the iterator wakes the thread and waits for its end. But TensorFlow 2.15 to 2.21 notes
that the iterator is cancelled only after it has woken the thread; where that looks too soon, it sleeps on to its next
time. So each third or fourth deletion takes up to as long as the data set was read before, a minute at most. All else
is done by then: buffers are freed, generators closed.
"""

from __future__ import annotations

import threading

_SECONDS = 0.1  # a deletion takes a hundredth of it, but for that sleep and what a user's generator does at its end


def elements(dataset):
    """Yields the elements of `dataset`, as its own iterator does."""
    iterators = [iter(dataset)]
    try:
        yield from iterators[0]
    finally:
        release(iterators)


def release(iterators):
    """Empties the list `iterators`, the only one to hold them; a deletion that takes long goes on in a thread."""
    released = iterators.copy()
    iterators.clear()
    # No daemon: one that wakes while Python ends would abort the process in a destructor of TensorFlow's.
    thread = threading.Thread(target=released.clear, name="deletes iterators")
    thread.start()
    thread.join(_SECONDS)
