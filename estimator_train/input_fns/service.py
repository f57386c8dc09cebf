"""tf.data service: batches that other machines make.

`image_files` has it as a switch. `arrays` and `generator` do not: what they read lies in this process, where no other
machine gets at it.
"""

import random
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


def index_batches(num_rows, *, batch_size, num_epochs, shuffle, seed):
    """Returns a dataset of batches of row numbers, int64 of shape (batch,), that the workers of a service can share.

    A service hands out the elements of a dataset's source, each to one worker. So here a whole batch is one, a function
    of its number. `shuffle`, `repeat` and `batch` would be each worker's own: the first worker's buffer would take all
    rows of a small dataset, and every worker would end with a short batch.
    """
    total = num_rows * (tf.int64.max // max(num_rows, 1) if num_epochs is None else num_epochs)
    seeds = _seeds(seed)

    def rows_of(number):
        places = tf.range(number * batch_size, tf.minimum((number + 1) * batch_size, total))
        rows, epochs = places % num_rows, places // num_rows
        if not shuffle:
            return rows
        # A permutation for each epoch, of which every place can be asked alone. The raw op, for
        # tf.random.experimental.index_shuffle fails on a seed for each row.
        seed_of_row = tf.stack([tf.fill(tf.shape(rows), part) for part in seeds] + [epochs], axis=1)
        return tf.raw_ops.RandomIndexShuffle(index=rows, seed=seed_of_row, max_index=num_rows - 1, rounds=4)

    return tf.data.Dataset.range(-(-total // batch_size)).map(rows_of)


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


def _seeds(seed):
    """Two int64 scalars: TensorFlow's global seed and `seed`, or random ones where there is neither."""
    seeds = tf.compat.v1.random.get_seed(seed)
    if None in seeds:
        seeds = random.getrandbits(63), random.getrandbits(63)
    return [tf.constant(part, tf.int64) for part in seeds]
