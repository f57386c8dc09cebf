"""One training at a time in a model_dir.

The lock is the operating system's (flock), which releases it when the process ends for any reason. A JSON file next to
it says who holds it; what a killed process left in that counts for nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import socket
import threading
from pathlib import Path

import filelock
import tensorflow as tf

from estimator_train.host.files import write_whole
from estimator_train.host.paths import is_remote

# A folder that nobody may write to: a training there fails by itself as soon as it writes.
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

_HELD = set()  # of (folder, thread)

log = tf.get_logger()


class ModelDirInUseError(RuntimeError):
    """Another training, of this process or another, is under way in the model_dir."""


@contextlib.contextmanager
def training_lock(model_dir):
    """Holds `model_dir` for one training, which may ask again in the same thread; an address such as gs:// is not held.

    Raises:
      ModelDirInUseError: another training holds it; names its host and process, and since when.
    """
    key = os.path.realpath(model_dir), threading.get_ident()
    lock = None if is_remote(model_dir) or key in _HELD else _acquire(model_dir)
    if lock is None:
        yield
        return
    _HELD.add(key)
    holder = _holder_file(key[0])  # absolute: the training may change its folder
    try:
        _warn_of_other_host(model_dir, _read(holder))
        started = datetime.datetime.now(datetime.timezone.utc).isoformat(" ", timespec="seconds")
        own = {"host": socket.gethostname(), "process": os.getpid(), "since": started}
        write_whole(holder, json.dumps(own) + "\n")
        yield
    finally:
        holder.unlink(missing_ok=True)
        _HELD.discard(key)
        lock.release()


def _acquire(model_dir):
    """The acquired lock, or None where nobody can write or the file system has no locks."""
    path = _lock_file(model_dir)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path, timeout=0)
        lock.acquire()
    except filelock.Timeout as error:
        raise ModelDirInUseError(_refusal(model_dir, _read(_holder_file(model_dir)))) from error
    except (OSError, NotImplementedError) as error:
        number = getattr(error, "errno", errno.ENOSYS)
        if number in _WITHOUT_LOCKS:
            log.warning("%s cannot be locked (%s): see to it that no second training uses it.", model_dir, error)
        elif number not in _READ_ONLY:
            raise
        return None
    return lock


def _refusal(model_dir, holder):
    mend = "wait for it, stop it, or use another model_dir"
    if holder.get("host", socket.gethostname()) != socket.gethostname():
        mend += f"; if that host is gone, delete {_lock_file(model_dir)}"
    return f"{model_dir} is in use by a training, {_text(holder)}: {mend}"


def _warn_of_other_host(model_dir, left):
    """Warns if the last training was on another host and left its file, as a killed one does."""
    if left.get("host", socket.gethostname()) != socket.gethostname():
        log.warning(
            "The last training in %s, %s, was killed, or it still runs and the hosts do not share locks: stop it then.",
            model_dir,
            _text(left),
        )


def _text(holder):
    if not holder:
        return "which has not said where it runs"
    if holder["host"] == socket.gethostname() and holder["process"] == os.getpid():
        return f"in another thread of this process, since {holder['since']}"
    return f"process {holder['process']} on host {holder['host']} since {holder['since']}"


def _read(path):
    """The holder's own description of itself, or {} if the file is missing or damaged."""
    try:
        holder = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) and holder.keys() == {"host", "process", "since"} else {}


def _lock_file(model_dir):
    return Path(model_dir, "training.lock")


def _holder_file(model_dir):
    return Path(model_dir, "training.json")
