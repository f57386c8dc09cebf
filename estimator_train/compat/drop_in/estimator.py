"""The functions of the old modules `estimator`, `estimator_export`, `early_stopping` and `run_config`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeVar

import tensorflow as tf

from estimator_train._engine import checkpoints, events

_Exported = TypeVar("_Exported")

path_to_str = tf.compat.path_to_str


def estimator_export(*names: str, v1: Sequence[str] | None = None) -> Callable[[_Exported], _Exported]:
    """Returns a decorator that does nothing: classes and functions are not registered anywhere."""
    return lambda exported: exported


def read_eval_metrics(eval_dir: str | os.PathLike[str]) -> dict[int, dict[str, float]]:
    """Returns the metrics in the event files of an evaluation's directory, such as `estimator.eval_dir()`.

    They are a dict of global steps, in ascending order, to dicts of metric names to floats; empty without events.
    """
    return events.read_eval_metrics(os.path.join(eval_dir, "*.tfevents.*"))


def _load_global_step_from_checkpoint_dir(checkpoint_dir: str) -> int:
    """Returns the global step of the newest checkpoint in `checkpoint_dir`, or 0 if there is none."""
    path = tf.io.gfile.isdir(checkpoint_dir) and checkpoints.latest_intact(checkpoint_dir)
    return int(checkpoints.read_global_step(path)) if path else 0


def _dict_to_str(dictionary: Mapping[str, Any]) -> str:
    """Returns "key = value" for each item that is not bytes, sorted and joined by commas."""
    return ", ".join(f"{key} = {value}" for key, value in sorted(dictionary.items()) if not isinstance(value, bytes))


def _write_dict_to_summary(output_dir: str, dictionary: Mapping[str, Any], current_global_step: int) -> None:
    """Writes metrics to an event file, as evaluations do."""
    metrics = {key: value for key, value in dictionary.items() if not isinstance(value, (str, NoneType))}
    events.write_eval_metrics(output_dir, metrics | {"global_step": current_global_step}, checkpoint=None)


def _write_checkpoint_path_to_summary(output_dir: str, checkpoint_path: str, current_global_step: int) -> None:
    """Writes the path of an evaluated checkpoint to an event file, as evaluations do."""
    events.write_eval_metrics(output_dir, {"global_step": current_global_step}, checkpoint_path)


class _Gauge:
    """A stub for the old library's usage counter; it counts nothing."""

    def get_cell(self, *labels: str) -> _Gauge:
        return self

    def set(self, value: object) -> None:
        pass


_estimator_api_gauge = _canned_estimator_api_gauge = _Gauge()
