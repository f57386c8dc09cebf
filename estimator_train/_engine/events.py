"""Writes the metrics of evaluations to event files, and reads them back."""

import collections
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from estimator_train._engine.host import model_dirs
from estimator_train._engine.host.files import names_in
from estimator_train._engine.session.private_tensorflow import eager_mode, share_event_writer

v1 = tf.compat.v1
log = tf.get_logger()


def write_eval_metrics(directory: str, metrics: Mapping[str, Any], checkpoint: str | None) -> None:
    """Logs the metrics of an evaluation, numpy values or serialized Summaries, and writes them to an event file."""
    step = int(metrics["global_step"])
    # str, because an f-string shows a float32 with the digits of a float64
    line = ", ".join(f"{key} = {metrics[key]!s}" for key in sorted(metrics))
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
    """Returns the writer of the event files in `directory`; call it in graph mode."""
    directory = model_dirs.absolute(directory)
    writer = v1.summary.FileWriterCache.get(directory)
    writer.reopen()  # an error, such as a full disk, has closed it; otherwise nothing happens
    writer.flush()  # a new one creates its file in a thread
    if not any(".tfevents." in name for name in names_in(directory)):
        # A program that starts over has deleted the directory: without a new file, TensorFlow would lose all events.
        tf.io.gfile.makedirs(directory)
        writer.close()
        writer.reopen()
    # TensorFlow caches a writer per spelling of a path, such as a hook's relative one, and two writers created within a
    # second would write to the same file.
    if os.path.isabs(directory):
        share_event_writer(directory, os.path.relpath(directory))
    return writer


def _add_summary(summary: tf.compat.v1.Summary, key: str, value: bytes) -> None:
    """Adds a metric whose value is a serialized Summary, such as an image summary."""
    try:
        parsed = v1.Summary.FromString(value)
    except DecodeError:
        log.warning("Metric %s holds bytes that are not a serialized Summary; skipping it.", key)
        return
    for index, entry in enumerate(parsed.value):
        entry.tag = f"{key}/{index}"
        summary.value.append(entry)


def read_eval_metrics(pattern: str) -> dict[int, dict[str, float]]:
    """Returns the metrics in the event files that match a glob pattern, by ascending step; warns of damaged files."""
    metrics = collections.defaultdict(dict)
    with eager_mode():
        for path in sorted(tf.io.gfile.glob(pattern)):
            try:
                # TensorFlow's summary_iterator would log a deprecation warning.
                for event in map(v1.Event.FromString, tf.data.TFRecordDataset(path).as_numpy_iterator()):
                    numbers = [value for value in event.summary.value if value.HasField("simple_value")]
                    if numbers:
                        metrics[event.step] |= {value.tag: value.simple_value for value in numbers}
            except (tf.errors.DataLossError, tf.errors.FailedPreconditionError) as error:  # the latter for a directory
                log.warning("Skipping the rest of event file %s, which is damaged: %s", path, error)
    return dict(sorted(metrics.items()))
