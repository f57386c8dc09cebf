"""TensorFlow's log, without some of its lines."""

import contextlib
import logging
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def logging_only(is_shown: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    """Drops the records of TensorFlow's log in the block for which `is_shown` returns False."""
    logger = logging.getLogger("tensorflow")
    logger.addFilter(is_shown)
    try:
        yield
    finally:
        logger.removeFilter(is_shown)
