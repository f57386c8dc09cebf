"""The settings of a TPUEstimator: RunConfig, TPUConfig, InputPipelineConfig."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_train import run_config


class InputPipelineConfig:
    """How an input_fn's batches are distributed over TPU hosts; has no effect on CPUs and GPUs."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


class TPUConfig(
    NamedTuple(
        "TPUConfig",
        [
            ("iterations_per_loop", int | str),
            ("num_shards", int | None),
            ("num_cores_per_replica", int | None),
            ("per_host_input_for_training", int),
            ("tpu_job_name", str | None),
            ("initial_infeed_sleep_secs", int | None),
            ("input_partition_dims", list | None),
            ("eval_training_input_configuration", int),
            ("experimental_host_call_every_n_steps", int),
            ("experimental_allow_per_host_v2_parallel_get_next", bool),
            ("experimental_feed_hook", Any),
        ],
    )
):
    """The settings of a TPU, for scripts that read them back; they have no effect on CPUs and GPUs.

    Fields and defaults are those of TensorFlow 2.15.

    Raises:
      ValueError: If a number is not positive, or the number of cores is not a power of 2 up to 128.
    """

    __slots__ = ()

    def __new__(
        cls,
        iterations_per_loop: int | str = 2,
        num_shards: int | None = None,
        num_cores_per_replica: int | None = None,
        per_host_input_for_training: bool | int = True,
        tpu_job_name: str | None = None,
        initial_infeed_sleep_secs: int | None = None,
        input_partition_dims: list | None = None,
        eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1,
        experimental_host_call_every_n_steps: int = 1,
        experimental_allow_per_host_v2_parallel_get_next: bool = False,
        experimental_feed_hook: Any = None,
    ) -> TPUConfig:
        is_time = isinstance(iterations_per_loop, str) and re.fullmatch(r"0*[1-9]\d*[smh]", iterations_per_loop)
        if not is_time and not (isinstance(iterations_per_loop, int) and iterations_per_loop > 0):
            raise ValueError(
                "iterations_per_loop must be a positive int, or a time such as '3600s', '60m' or '1h', "
                f"given: {iterations_per_loop!r}"
            )
        for name, count in {"num_shards": num_shards, "initial_infeed_sleep_secs": initial_infeed_sleep_secs}.items():
            if count is not None and count <= 0:
                raise ValueError(f"TPUConfig {name} must be positive, got {count}")
        if num_cores_per_replica not in (None, 1, 2, 4, 8, 16, 32, 64, 128):
            raise ValueError(f"num_cores_per_replica must be 1, 2, 4, 8, 16, 32, 64, 128; got {num_cores_per_replica}")
        if isinstance(per_host_input_for_training, bool):
            modes = (InputPipelineConfig.PER_SHARD_V1, InputPipelineConfig.PER_HOST_V1)
            per_host_input_for_training = modes[per_host_input_for_training]
        return super().__new__(
            cls,
            iterations_per_loop,
            num_shards,
            num_cores_per_replica,
            per_host_input_for_training,
            tpu_job_name,
            initial_infeed_sleep_secs,
            input_partition_dims,
            eval_training_input_configuration,
            experimental_host_call_every_n_steps,
            experimental_allow_per_host_v2_parallel_get_next,
            experimental_feed_hook,
        )


class RunConfig(run_config.RunConfig):
    """The RunConfig of a `TPUEstimator`; extends `estimator_train.RunConfig`.

        config = tf.compat.v1.estimator.tpu.RunConfig(tpu_config=TPUConfig(iterations_per_loop=100), model_dir="runs/a")

    Args:
      tpu_config: a `TPUConfig`; None means the defaults.
      evaluation_master: address of the server for evaluation; None means `master`.
      master: address of the server for training; None means TF_CONFIG's or, without one, this process.
      cluster: a `tf.distribute.cluster_resolver.ClusterResolver`, whose master overrides the two above.
      kwargs: the arguments of `estimator_train.RunConfig`.
    """

    _tpu_config: TPUConfig
    _cluster: tf.distribute.cluster_resolver.ClusterResolver | None
    _given_master: str | None
    _given_evaluation_master: str | None

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: tf.distribute.cluster_resolver.ClusterResolver | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if cluster is not None:
            master = evaluation_master = cluster.master()
        vars(self).update(
            _tpu_config=tpu_config or TPUConfig(),
            _cluster=cluster,
            _given_master=master,
            _given_evaluation_master=master if evaluation_master is None else evaluation_master,
        )

    @property
    def tpu_config(self) -> TPUConfig:
        """The `TPUConfig`."""
        return self._tpu_config

    @property
    def cluster(self) -> tf.distribute.cluster_resolver.ClusterResolver | None:
        """The ClusterResolver, or None."""
        return self._cluster

    @property
    def master(self) -> str:
        """Address of the server that training sessions connect to; "" means this process."""
        return super().master if self._given_master is None else self._given_master

    @property
    def evaluation_master(self) -> str:
        """Address of the server that evaluation sessions connect to."""
        return super().evaluation_master if self._given_evaluation_master is None else self._given_evaluation_master

    def replace(self, **changes: Any) -> RunConfig:
        """Returns a copy with `changes`: `tpu_config` or arguments of `estimator_train.RunConfig.replace`."""
        tpu_config = changes.pop("tpu_config", self._tpu_config)
        replaced: Any = super().replace(**changes)
        vars(replaced).update(_tpu_config=tpu_config)
        return replaced
