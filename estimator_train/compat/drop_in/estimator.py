"""The functions of the old modules `estimator` and `run_config`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import NoneType
from typing import Any

import tensorflow as tf

from estimator_train import estimator
from estimator_train._engine import checkpoints
from estimator_train._engine.events import write_eval_metrics
from estimator_train._engine.run_config import RunConfig, default_session_config


def maybe_overwrite_model_dir_and_session_config(
    config: RunConfig | None, model_dir: str | os.PathLike[str] | None
) -> RunConfig:
    """Returns `config` with the model_dir and session_config that an Estimator would use.

    Args:
      config: a `RunConfig`; None means the defaults.
      model_dir: as for `Estimator`; None means the config's, or a new temporary directory.

    Raises:
      ValueError: If `config` is not a RunConfig, or names a different directory than `model_dir`.
    """
    return estimator._config_with_model_dir(config, model_dir)


def get_default_session_config() -> tf.compat.v1.ConfigProto:
    """Returns the ConfigProto of a single process: soft placement and one pass of the graph optimizers."""
    return default_session_config()


def _load_global_step_from_checkpoint_dir(checkpoint_dir: str) -> int:
    """Returns the global step of the newest checkpoint in `checkpoint_dir`, or 0 if there is none."""
    path = checkpoints.latest_intact(checkpoint_dir) if tf.io.gfile.isdir(checkpoint_dir) else None
    return 0 if path is None else int(checkpoints.read_global_step(path))


def path_to_str(path: Any) -> Any:
    """Returns a PathLike as a str, and anything else as it is."""
    return os.fspath(path) if isinstance(path, os.PathLike) else path


def _dict_to_str(dictionary: Mapping[str, Any]) -> str:
    """Returns "key = value" for each item that is not bytes, sorted and joined by commas."""
    return ", ".join(f"{key} = {value}" for key, value in sorted(dictionary.items()) if not isinstance(value, bytes))


def _write_dict_to_summary(output_dir: str, dictionary: Mapping[str, Any], current_global_step: int) -> None:
    """Writes metrics to an event file, as evaluations do."""
    metrics = {key: value for key, value in dictionary.items() if not isinstance(value, (str, NoneType))}
    write_eval_metrics(output_dir, metrics | {"global_step": current_global_step}, checkpoint=None)


def _write_checkpoint_path_to_summary(output_dir: str, checkpoint_path: str, current_global_step: int) -> None:
    """Writes the path of an evaluated checkpoint to an event file, as evaluations do."""
    write_eval_metrics(output_dir, {"global_step": current_global_step}, checkpoint_path)


class _Gauge:
    """A stub for the old library's usage counter; it counts nothing."""

    def get_cell(self, *labels: str) -> _Gauge:
        return self

    def set(self, value: object) -> None:
        pass


_estimator_api_gauge = _canned_estimator_api_gauge = _Gauge()
