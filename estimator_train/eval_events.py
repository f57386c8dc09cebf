"""The metrics of evaluations, read back from their event files."""

import collections

import tensorflow as tf

from estimator_train.function_session import eager_mode

v1 = tf.compat.v1


def read_eval_metrics(pattern):
    """Dict of global steps, in their order, to dicts of metric names to floats.

    A damaged or half-written file counts as far as it can be read, with a warning.

    Args:
      pattern: of the event files' paths.
    """
    metrics = collections.defaultdict(dict)
    for path in sorted(tf.io.gfile.glob(pattern)):
        try:
            for event in _events(path):
                values = {
                    value.tag: value.simple_value for value in event.summary.value if value.HasField("simple_value")
                }
                if values:
                    metrics[event.step] |= values
        except tf.errors.DataLossError as error:
            tf.get_logger().warning("The rest of event file %s is skipped, it is damaged: %s", path, error)
    return dict(sorted(metrics.items()))


def _events(path):
    """Yields the events of a file. TensorFlow's summary_iterator does, too, and warns of its own deprecation."""
    with eager_mode():
        records = iter(tf.data.TFRecordDataset(path))
    while True:
        with eager_mode():
            record = next(records, None)
            if record is None:
                return
            event = v1.Event.FromString(record.numpy())
        yield event
