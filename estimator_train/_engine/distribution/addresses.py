"""Checks the addresses of a cluster's tasks, and claims their ports."""

import atexit
import contextlib
import socket
from collections.abc import Iterator

import tensorflow as tf

_claims: dict[int, socket.socket] = {}


def check_address(task_type: str, task_id: int, address: str) -> None:
    """Claims the port of a task's address, host:port, for this process; raises ValueError if it cannot listen there."""
    # TensorFlow itself would share the port with the other process.
    with explaining_bind_errors(task_type, task_id, address), socket.socket() as probe:
        port = int(address.rpartition(":")[2])
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ignores connections left by a killed task
        probe.bind(("", port))
        _claim(port)


def _claim(port: int) -> None:
    """Keeps other tasks from taking a port before TensorFlow listens there; raises OSError if one has claimed it."""
    if port in _claims:
        return
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0estimator_train {port}")  # a name of unix(7) without a file, which ends with the process
    except OSError:
        claim.close()
        raise
    atexit.register(claim.close)
    _claims[port] = claim


@contextlib.contextmanager
def explaining_bind_errors(task_type: str, task_id: int, address: str) -> Iterator[None]:
    """Raises ValueError with the task and its address for errors inside the block."""
    try:
        yield
    except (OSError, OverflowError, ValueError, tf.errors.OpError) as error:
        task = f"{task_type} {task_id}"
        raise ValueError(f"TF_CONFIG's {task} cannot listen at {address}: {error}; give it a free port.") from error
