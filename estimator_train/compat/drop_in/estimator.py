"""The functions of the old modules `estimator` and `run_config`."""

from __future__ import annotations

import os

import tensorflow as tf

from estimator_train import estimator
from estimator_train._engine import checkpoints
from estimator_train.run_config import RunConfig, default_session_config


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
    config = estimator._config_with_model_dir(config, model_dir)
    return config if config.session_config else config.replace(session_config=default_session_config(config))


def get_default_session_config() -> tf.compat.v1.ConfigProto:
    """Returns the ConfigProto of a single process: soft placement and one pass of the graph optimizers."""
    return default_session_config(RunConfig())


def _load_global_step_from_checkpoint_dir(checkpoint_dir: str) -> int:
    """Returns the global step of the newest checkpoint in `checkpoint_dir`, or 0 if there is none."""
    path = checkpoints.latest_intact(checkpoint_dir) if tf.io.gfile.isdir(checkpoint_dir) else None
    return 0 if path is None else int(checkpoints.read_global_step(path))


class _Gauge:
    """A stub for the old library's usage counter; it counts nothing."""

    def get_cell(self, *labels: str) -> _Gauge:
        return self

    def set(self, value: object) -> None:
        pass


_estimator_api_gauge = _canned_estimator_api_gauge = _Gauge()
