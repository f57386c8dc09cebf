"""tf.data service: batches that other machines make.

`image_files` has it as a switch. `arrays` and `generator` do not: what they read lies in this process, where no other
machine gets at it.
"""

import socket
from urllib.parse import urlsplit

import tensorflow as tf

_CONNECT_SECS = 10


def check_service(service):
    """Raises ValueError unless `service` is an address like "grpc://host:port"."""
    try:
        address = urlsplit(service)
        is_complete = address.scheme == "grpc" and address.hostname and address.port and not address.path
    except (TypeError, ValueError, AttributeError):  # no string, or a port that is no number
        is_complete = False
    if not is_complete:
        raise ValueError(f'service must be the dispatcher\'s address, "grpc://host:port", got {service!r}')


def distribute(batches, service):
    """Returns `batches` as the workers of `service` make them, each once, in the order in which they are ready.

    Raises:
      ConnectionError: nothing answers at the address.
    """
    address = urlsplit(service)
    try:
        # TensorFlow itself would try for ever, in silence.
        socket.create_connection((address.hostname, address.port), _CONNECT_SECS).close()
    except OSError as error:
        fix = "start its dispatcher or mend the address"
        raise ConnectionError(f"no tf.data service answers at {service} ({error}); {fix}") from error
    sharding = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    return batches.apply(tf.data.experimental.service.distribute(sharding, service))
