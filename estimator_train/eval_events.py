"""The metrics of evaluations, read back from their event files."""

import collections

import tensorflow as tf

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
            for event in v1.train.summary_iterator(path):
                values = {
                    value.tag: value.simple_value for value in event.summary.value if value.HasField("simple_value")
                }
                if values:
                    metrics[event.step] |= values
        except tf.errors.DataLossError as error:
            tf.get_logger().warning("The rest of event file %s is skipped, it is damaged: %s", path, error)
    return dict(sorted(metrics.items()))
