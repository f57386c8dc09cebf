"""Starts the TensorFlow server of a task in a cluster with parameter servers, and checks tasks' addresses."""

from __future__ import annotations

import atexit
import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from estimator_train.run_config import RunConfig

v1 = tf.compat.v1
log = tf.get_logger()

_claims: dict[int, socket.socket] = {}


def start_server(config: RunConfig) -> tf.compat.v1.train.Server:
    """Starts the server for the task of a `RunConfig`; it listens until the returned object is deleted.

    TensorFlow's servers listen on all interfaces, whatever address the cluster names.

    Raises:
      ValueError: the port is in use.
    """
    address = config.cluster_spec.task_address(config.task_type, config.task_id)
    check_address(config.task_type, config.task_id, address)
    session_config = v1.ConfigProto()
    if config.session_config is not None:
        session_config.gpu_options.CopyFrom(config.session_config.gpu_options)
    with _explaining_bind_errors(config.task_type, config.task_id, address):
        log.info("Starting the server of %s %s at %s.", config.task_type, config.task_id, address)
        return v1.train.Server(
            config.cluster_spec, config.task_type, config.task_id, protocol=config.protocol, config=session_config
        )


def check_address(task_type: str, task_id: int, address: str) -> None:
    """Claims the port of a task's address, host:port, for this process; raises ValueError if it cannot listen there."""
    # TensorFlow itself would share the port with the other process.
    with _explaining_bind_errors(task_type, task_id, address), socket.socket() as probe:
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
def _explaining_bind_errors(task_type: str, task_id: int, address: str) -> Iterator[None]:
    """Raises ValueError with the task and its address for errors inside the block."""
    try:
        yield
    except (OSError, OverflowError, ValueError, tf.errors.OpError) as error:
        task = f"{task_type} {task_id}"
        raise ValueError(f"TF_CONFIG's {task} cannot listen at {address}: {error}; give it a free port.") from error
