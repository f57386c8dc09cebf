"""The names that users' exporters import from the old `export.export`, `export.export_lib`, `exporter` and `gc`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from estimator_train import export, exporter
from estimator_train._engine.exports import receivers
from estimator_train._engine.exports.signatures import signatures
from estimator_train.compat.drop_in.util import parse_input_fn_result

if TYPE_CHECKING:
    from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef

_SINGLE = {"feature": "feature", "label": "label"} | dict.fromkeys(
    ("receiver_tensor", "receiver_tensors_alternative"), "input"
)


class _SavedModelExporter(exporter.FinalExporter):
    """Writes a SavedModel on each call and keeps all of them; takes the arguments of `FinalExporter`."""

    _export = exporter._SavedModelExporter._export


class UnsupervisedInputReceiver(export.ServingInputReceiver):
    """The return value of an input receiver function for a training graph without labels."""

    __slots__ = ()


def get_timestamped_export_dir(export_dir_base: str | bytes | os.PathLike[str]) -> bytes:
    """Returns an unused path below `export_dir_base`, named by the time in Unix seconds, as bytes."""
    base = tf.compat.as_bytes(tf.compat.path_to_str(export_dir_base))
    seconds = int(time.time())
    while tf.io.gfile.exists(path := os.path.join(base, str(seconds).encode())):
        seconds += 1
    return path


def get_temp_export_dir(timestamped_export_dir: str | bytes | os.PathLike[str]) -> bytes:
    """Returns the path, as bytes, to which an export is written before it is moved to its final path."""
    base, name = os.path.split(tf.compat.as_bytes(tf.compat.path_to_str(timestamped_export_dir)))
    return os.path.join(base, b"temp-" + name)


def build_all_signature_defs(
    receiver_tensors: Any,
    export_outputs: dict[str, export.ExportOutput],
    receiver_tensors_alternatives: dict[str, Any] | None = None,
    serving_only: bool = True,
) -> dict[str, SignatureDef]:
    """Returns the SignatureDefs of a SavedModel by key, one for each output that can be served.

    With `serving_only`, those of training and evaluation are left out.
    """
    if not isinstance(export_outputs, dict):
        raise ValueError(f"export_outputs must be a dict. Received {export_outputs!r}")
    receiver = export.ServingInputReceiver(receiver_tensors, receiver_tensors, receiver_tensors_alternatives)
    return signatures(receiver, export_outputs, serving_only=serving_only)


def build_supervised_input_receiver_fn_from_input_fn(
    input_fn: Callable[..., Any], **input_fn_args: Any
) -> Callable[[], export.SupervisedInputReceiver]:
    """Calls `export.build_raw_supervised_input_receiver_fn` with the features and labels of `input_fn`."""
    with tf.Graph().as_default():
        features, labels, _ = parse_input_fn_result(input_fn(**input_fn_args))
    return export.build_raw_supervised_input_receiver_fn(features, labels)


def wrap_and_check_input_tensors(tensors: Any, field_name: str, allow_int_keys: bool = False) -> dict[Any, Any]:
    """Returns `tensors` as a dict; a single tensor gets the default key of its kind, `field_name`, in receivers."""
    keys = (str, int) if allow_int_keys else (str,)
    return receivers._tensor_dict(tensors, field_name, default_key=_SINGLE[field_name], key_types=keys)


class Path(NamedTuple):
    """A file or directory with its version, an int or None."""

    path: str
    export_version: int | None


def _get_paths(base_dir, parser):
    """Returns the sorted entries of a directory. `parser` adds the version to a `Path`, or returns None to skip it."""
    entries = [Path(os.path.join(base_dir, name.rstrip("/")), None) for name in tf.io.gfile.listdir(base_dir)]
    return sorted(parsed for parsed in map(parser, entries) if parsed)


def _largest_export_versions(n):
    """Returns a filter of lists of `Path` that keeps the `n` largest versions, sorted."""

    def keep(paths):
        versioned = [path for path in paths if path.export_version is not None]
        return sorted(sorted(versioned, key=lambda path: path.export_version, reverse=True)[:n])

    return keep


def _negation(keep):
    """Returns a filter of lists of `Path` that keeps what the filter `keep` drops, sorted."""
    return lambda paths: sorted(set(paths) - set(keep(paths)))
