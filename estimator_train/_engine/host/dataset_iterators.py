"""Deletes dataset iterators, and sessions that hold them, without waiting for tf.data's autotuner.

The autotuner has a thread for each iterator. The thread checks the iterator after 10 ms, 20 ms, 40 ms and so on, up to
once a minute, and sleeps in between. Deleting the iterator wakes the thread and waits for it to end. But TensorFlow
2.15 to 2.21 marks the iterator as cancelled only after waking the thread. If the thread checks too soon, it goes back
to sleep until its next check. About a third of deletions therefore take up to as long as the dataset had been read, at
most a minute. With one device, everything else is done by then: buffers are freed, generators closed. With several
devices, each has its own iterator and autotuner, and the iterator of the dataset itself is deleted after them.
"""

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

_SECONDS = 0.1  # deletion takes a hundredth of it, apart from that sleep and cleanup in a user's generator


def iterate(dataset: "tf.data.Dataset") -> Iterator[Any]:
    """Yields the elements of `dataset` and deletes its iterator, unless the traceback of an error still holds it."""
    iterators = [iter(dataset)]
    try:
        yield from iterators[0]
    finally:
        delete_in_background(iterators)


def delete_in_background(iterators: list[Iterator[Any]]) -> None:
    """Empties the list `iterators`, which must hold the only references; a slow deletion continues in a thread."""
    released = iterators.copy()
    iterators.clear()
    in_background(released.clear)


def in_background(delete: Callable[[], None]) -> None:
    """Calls `delete`, which continues in a thread if it is slow."""
    if threading.main_thread().is_alive():
        # Not a daemon thread: if it woke while Python exits, a TensorFlow destructor would abort the process.
        thread = threading.Thread(target=delete, name="deletes iterators", daemon=False)
        thread.start()
        thread.join(_SECONDS)
    else:  # at exit, Python starts no more threads
        delete()
