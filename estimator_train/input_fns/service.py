"""Reads batches from a tf.data service, which prepares them on other machines.

`image_files` has an argument for it. `arrays` and `generator` do not, because their data is in this process' memory.
The servers of a service listen on all interfaces; their configuration has no address to bind to.
"""

import socket
from urllib.parse import urlsplit

import tensorflow as tf

_CONNECT_SECS = 10


def check_service(service: str) -> None:
    """Raises ValueError unless `service` is an address like "grpc://host:port"."""
    try:
        address = urlsplit(service)
        is_complete = address.scheme == "grpc" and address.hostname and address.port and not address.path
    except (TypeError, ValueError, AttributeError):  # not a string, or an invalid port
        is_complete = False
    if not is_complete:
        raise ValueError(f'service must be the dispatcher\'s address, "grpc://host:port", got {service!r}')


def distribute(batches: tf.data.Dataset, service: str) -> tf.data.Dataset:
    """Returns `batches` as the workers of `service` compute them, each once; ConnectionError if none answers."""
    address = urlsplit(service)
    try:
        # TensorFlow itself would retry forever without a message.
        socket.create_connection((address.hostname, address.port), _CONNECT_SECS).close()
    except OSError as error:
        fix = "start its dispatcher or correct the address"
        raise ConnectionError(f"no tf.data service answers at {service} ({error}); {fix}") from error
    sharding = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    return batches.apply(tf.data.experimental.service.distribute(sharding, service))
