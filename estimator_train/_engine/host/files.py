"""Writes files atomically, names unfinished files by process, and makes paths printable."""

import math
import os
import platform
import re
import threading
import time
from collections.abc import Iterable

from estimator_train._engine.host.paths import is_remote

_DAY = 86400.0
_HOST = re.sub(r"\W", "_", platform.node()) or "host"
_START_TIME = time.time()  # of this process, about
_CLOCK_SKEW = 60.0  # seconds by which the clock of a file server may be behind


# Control characters, line and paragraph separators, and Unicode's Bidi_Control, which shows a text in another order.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Returns a path or a name that any stream can print and that does not control a terminal.

    Non-UTF-8 bytes are escaped, for example as \\udcff, and so are control characters, for example as \\x1b or \\u202e.
    """
    return CONTROL.sub(_escaped, text).encode(errors="backslashreplace").decode()


def quoted(names: Iterable[str]) -> str:
    """Joins names from a user's files as Python quotes them, because "cat " and "cat" may be two of them.

    >>> print(quoted(["cat ", "cat"]))
    'cat ', 'cat'
    """
    return ", ".join(map(repr, names))


def _escaped(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replaces the file at `path` atomically: readers see the old or the new content, even if the process is killed."""
    if isinstance(content, str):
        content = content.encode()
    part = unfinished(path)
    if is_remote(path):
        import tensorflow as tf  # only remote paths need it

        with tf.io.gfile.GFile(part, "wb") as file:
            file.write(content)
        tf.io.gfile.rename(part, os.fspath(path), overwrite=True)
        return
    try:
        with open(part, "wb", opener=no_link) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        if os.path.lexists(part):
            os.remove(part)
        raise


def remove(path: str) -> None:
    """Removes a file, a directory with its contents, or a link, but not what it leads to, which may be anywhere."""
    import tensorflow as tf  # paths may be remote

    if tf.io.gfile.isdir(path) and not os.path.islink(path):
        tf.io.gfile.rmtree(path)
    else:
        tf.io.gfile.remove(path)


def names_in(directory: str | os.PathLike[str]) -> list[str]:
    """Returns the names in a directory, local or remote; none if there is no such directory."""
    import tensorflow as tf  # paths may be remote

    if not tf.io.gfile.isdir(directory):
        return []
    return [name.rstrip("/") for name in tf.io.gfile.listdir(directory)]  # object stores append a / to directories


def no_link(path: str, flags: int) -> int:
    """An opener for `open` that refuses links: in somebody else's directory, they may lead to any file."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def size_and_time(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Returns a file's size in bytes and its modification time in nanoseconds."""
    if is_remote(path):
        import tensorflow as tf  # only remote paths need it

        status = tf.io.gfile.stat(path)
        return status.length, status.mtime_nsec
    local_status = os.stat(path)  # gfile.stat has whole seconds only
    return local_status.st_size, local_status.st_mtime_ns


def unfinished(path: str | os.PathLike[str]) -> str:
    """Returns the path of the hidden file that this thread renames to `path` once it is complete."""
    directory, name = os.path.split(os.fspath(path))
    return os.path.join(directory, f".{name}.{threading.get_ident()}.{this_process()}.part")


def owner_of_unfinished(name: str) -> str | None:
    """Returns the process that writes the file called `name`, or None if `unfinished` did not create the name."""
    match = re.fullmatch(r"\..+\.(\w+-\d+)\.part", name)
    return match and match[1]


def this_process() -> str:
    """Returns a name for this process, used in the names of its unfinished files."""
    return f"{_HOST}-{os.getpid()}"


def is_gone(process: str, last_seen: float) -> bool:
    """Returns whether a process named by `this_process`, last seen at this Unix time in seconds, has ended."""
    host, _, pid = process.rpartition("-")
    if host != _HOST:  # it counts as ended after a day
        return time.time() - last_seen > _DAY
    if int(pid) == os.getpid():  # in containers, an earlier process often had the same id
        return last_seen < _START_TIME
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's process
        pass
    return last_seen < _start_time(pid) - _CLOCK_SKEW  # one that started later reuses the process id


def _start_time(pid: str) -> float:
    """Returns when a running process started, as a Unix time in seconds; -inf if the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # see proc(5); the second field is a name in parentheses
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:  # not Linux, or the process has ended since
        return -math.inf
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK")
