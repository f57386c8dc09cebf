"""Turns the various errors of a full disk into one that names the directory and its free space."""

import contextlib
import errno
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from estimator_train._engine.remedies import UserError

_NUMBERS = (errno.ENOSPC, errno.EDQUOT)
_TEXTS = "|".join(map(os.strerror, _NUMBERS))
# "{{function_node …}} /runs/oct2017/model.ckpt-0_temp/part-00000-of-00001.data…; No space left on device [Op:SaveV2]"
_PATH = re.compile(rf"(?:^|}}}} )([^;{{}}\n]+); (?:{_TEXTS})", re.MULTILINE)


class FullDiskError(UserError, OSError):
    """A file could not be written because the disk is full or the user's quota is used up."""


@contextlib.contextmanager
def explaining_full_disk(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Raises FullDiskError for errors due to a full disk, by default that of `directory`, to which the block writes."""
    try:
        with _hiding_traceback_of_event_writer():
            yield
    except FullDiskError:
        raise
    # TensorFlow's ResourceExhaustedError is also for devices that are out of memory. Its writer of event files raises
    # RuntimeError.
    except (tf.errors.OpError, RuntimeError) as error:
        if (found := _PATH.search(str(error))) is None:
            raise
        raise _full_disk(Path(found[1]).parent) from error
    except OSError as error:
        if error.errno not in _NUMBERS and re.search(_TEXTS, str(error)) is None:  # HDF5 has it only in the message
            raise
        raise _full_disk(Path(error.filename).parent if error.filename else Path(directory)) from error


@contextlib.contextmanager
def _hiding_traceback_of_event_writer() -> Iterator[None]:
    """Hides that the thread which writes event files ends with a full disk: the writer's next call raises its error."""
    show = threading.excepthook

    def show_others(args: threading.ExceptHookArgs) -> None:
        is_event_writer = args.thread is not None and args.thread.name == "EventLoggerThread"
        if not (is_event_writer and _PATH.search(str(args.exc_value))):
            show(args)

    threading.excepthook = show_others
    try:
        yield
    finally:
        threading.excepthook = show


def _full_disk(directory: Path) -> FullDiskError:
    if directory.name.endswith("_temp"):  # the directory of an unfinished checkpoint
        directory = directory.parent
    there = next(each for each in (directory.absolute(), *directory.absolute().parents) if each.exists())
    usage = shutil.disk_usage(there)
    free, total = (f"{count / 1e6:,.1f} MB" for count in (usage.free, usage.total))
    error = FullDiskError(
        f"the disk of {there} is full, a file did not fit: {free} of {total} are free without it; free some space, or "
        "use a directory on another disk"
    )
    error.errno = errno.ENOSPC
    return error
