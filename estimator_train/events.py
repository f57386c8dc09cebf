"""The metrics of evaluations, written to their event files and read back."""

from __future__ import annotations

import collections
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from estimator_train.host import model_dirs
from estimator_train.session.private_names import eager_mode, share_event_writer

v1 = tf.compat.v1
log = tf.get_logger()


def write_eval_metrics(directory: str, metrics: Mapping[str, Any], checkpoint: str | None) -> None:
    """Logs the metrics of an evaluation, and writes them and the checkpoint's path to the event file of `directory`.

    Args:
      directory: of the event file, which is made.
      metrics: dict of metric names and "global_step" to numpy values or serialized Summaries.
      checkpoint: path prefix; None: there was none.
    """
    step = int(metrics["global_step"])
    line = ", ".join(f"{key} = {metrics[key]}" for key in sorted(metrics))
    log.info("Saving dict for global step %d: %s", step, line)
    summary = v1.Summary()
    for key, value in metrics.items():
        if key == "global_step":
            continue
        if isinstance(value, bytes):
            _add_summary(summary, key, value)
        elif isinstance(value, tuple | list | dict):
            log.warning("Skipping summary for %s, which has several values.", key)
        elif getattr(value, "ndim", 0) or np.iscomplexobj(value):
            summary.value.add(tag=key, tensor=tf.make_tensor_proto(value))
        else:
            summary.value.add(tag=key, simple_value=float(value))
    if checkpoint is not None:
        log.info("Saving 'checkpoint_path' summary for global step %d: %s", step, checkpoint)
        summary.value.add(tag="checkpoint_path", tensor=tf.make_tensor_proto(checkpoint, dtype=tf.string))
    writer = event_writer(directory)
    writer.add_summary(summary, step)
    writer.flush()


def event_writer(directory: str | os.PathLike[str]) -> tf.compat.v1.summary.FileWriter:
    """The writer of the event files in `directory`; call it in graph mode.

    TensorFlow keeps one for each spelling of a path. Two that are made in a second would write into one file. So this
    one is that of the path as it is relative to the working directory, too, which a user's hooks may write to.
    """
    directory = model_dirs.absolute(directory)
    writer = v1.summary.FileWriterCache.get(directory)
    if os.path.isabs(directory):
        share_event_writer(directory, os.path.relpath(directory))
    return writer


def _add_summary(summary, key, value):
    """Adds a metric that is a serialized Summary, such as an image summary's."""
    try:
        parsed = v1.Summary.FromString(value)
    except DecodeError:
        log.warning("Metric %s is bytes that are no serialized Summary; it is not written to the events.", key)
        return
    for index, entry in enumerate(parsed.value):
        entry.tag = f"{key}/{index}"
        summary.value.append(entry)


def read_eval_metrics(pattern: str) -> dict[int, dict[str, float]]:
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
        except (tf.errors.DataLossError, tf.errors.FailedPreconditionError) as error:  # the latter of a folder
            log.warning("The rest of event file %s is skipped, it is damaged: %s", path, error)
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
