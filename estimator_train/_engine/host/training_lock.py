"""Allows only one training at a time in a model_dir.

The lock is the operating system's (flock), which releases it when the process ends for any reason. A JSON file next to
it describes the holder; a file left by a killed process has no effect.
"""

import contextlib
import datetime
import errno
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import filelock
import tensorflow as tf

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import is_remote
from estimator_train._engine.remedies import UserError

# Errors of a read-only directory, in which training fails anyway as soon as it writes.
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EIO)

_LOCK, _HOLDER = "training.lock", "training.json"

_HELD = set()  # of (directory, thread)

log = tf.get_logger()


class ModelDirInUseError(UserError, RuntimeError):
    """Another training, in this or another process, is running in the model_dir."""


@contextlib.contextmanager
def training_lock(model_dir: str) -> Iterator[None]:
    """Locks a local `model_dir` for one training, reentrant in a thread; ModelDirInUseError if another holds it."""
    key = os.path.realpath(model_dir), threading.get_ident()
    lock = None
    if not is_remote(model_dir) and key not in _HELD:
        lock = _acquire(model_dir)
    if lock is None:
        yield
        return
    _HELD.add(key)
    holder = Path(key[0], _HOLDER)  # absolute, because the training may change its directory
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


def _acquire(model_dir: str) -> filelock.BaseFileLock | None:
    """Returns the acquired lock, or None if the directory is read-only or the file system has no locks."""
    path = Path(model_dir, _LOCK)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path, timeout=0)
        lock.acquire()
    except filelock.Timeout as error:
        raise ModelDirInUseError(_refusal(model_dir, _read(Path(model_dir, _HOLDER)))) from error
    except (OSError, NotImplementedError) as error:
        number = getattr(error, "errno", errno.ENOSYS)
        if number in _WITHOUT_LOCKS:
            log.warning("%s cannot be locked (%s); make sure that no other training uses it.", model_dir, error)
        elif number not in _READ_ONLY:
            raise
        return None
    return lock


def _refusal(model_dir: str, holder: dict[str, Any]) -> str:
    mend = "wait for it, stop it, or use another model_dir"
    if holder.get("host", socket.gethostname()) != socket.gethostname():
        mend += f"; if that host is gone, delete {Path(model_dir, _LOCK)}"
    return f"{model_dir} is in use by a training, {_text(holder)}: {mend}"


def _warn_of_other_host(model_dir: str, left: dict[str, Any]) -> None:
    """Warns if the last training ran on another host and left its file behind, as if killed."""
    if left.get("host", socket.gethostname()) != socket.gethostname():
        log.warning(
            "The last training in %s, %s, was killed, or it is still running and the hosts do not share locks; if so, "
            "stop it.",
            model_dir,
            _text(left),
        )


def _text(holder: dict[str, Any]) -> str:
    if not holder:
        return "whose host and process are unknown"
    if holder["host"] == socket.gethostname() and holder["process"] == os.getpid():
        return f"in another thread of this process, since {holder['since']}"
    return f"process {holder['process']} on host {holder['host']} since {holder['since']}"


def _read(path: Path) -> dict[str, Any]:
    """Returns the holder's description of itself, or {} if the file is missing or damaged."""
    try:
        holder = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return holder if isinstance(holder, dict) and holder.keys() == {"host", "process", "since"} else {}
