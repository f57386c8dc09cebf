"""The settings of a TPUEstimator: RunConfig, TPUConfig, InputPipelineConfig."""

from __future__ import annotations

import inspect
import numbers
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


class _TPUConfig(NamedTuple):
    iterations_per_loop: int | str = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: bool | int = True
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: list | None = None
    eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1
    experimental_host_call_every_n_steps: int = 1
    experimental_allow_per_host_v2_parallel_get_next: bool = False
    experimental_feed_hook: Any = None


class TPUConfig(_TPUConfig):
    """The settings of a TPU, for scripts that read them back; they have no effect on CPUs and GPUs.

    So `iterations_per_loop`, large in scripts for TPUs, hides no step from hooks, as in tf.estimator without a TPU.
    Steps run in calls of many anyway, up to the next one that a hook looks at: `steps_per_loop` of the RunConfig.
    """

    __slots__ = ()

    __signature__ = inspect.signature(_TPUConfig)

    def __new__(cls, *args: Any, **kwargs: Any) -> TPUConfig:
        config = super().__new__(cls, *args, **kwargs)
        _check_loop(config.iterations_per_loop)
        for name in ("num_shards", "initial_infeed_sleep_secs"):
            count = getattr(config, name)
            if count is not None and count <= 0:
                raise ValueError(f"TPUConfig {name} must be positive, got {count}")
        cores = config.num_cores_per_replica
        if cores not in (None, 1, 2, 4, 8, 16, 32, 64, 128):
            raise ValueError(f"num_cores_per_replica must be 1, 2, 4, 8, 16, 32, 64, 128; got {cores}")
        if not isinstance(config.per_host_input_for_training, bool):
            return config
        modes = (InputPipelineConfig.PER_SHARD_V1, InputPipelineConfig.PER_HOST_V1)
        return config._replace(per_host_input_for_training=modes[config.per_host_input_for_training])


def _check_loop(steps):
    is_time = isinstance(steps, str) and re.fullmatch(r"0*[1-9]\d*[smh]", steps)
    if not is_time and not (isinstance(steps, numbers.Integral) and steps > 0):
        raise ValueError(
            f"iterations_per_loop must be a positive int, or a time such as '3600s', '60m' or '1h', given: {steps!r}"
        )


class RunConfig(run_config.RunConfig):
    """The RunConfig of a `TPUEstimator`; extends `estimator_train.RunConfig`.

        config = tf.compat.v1.estimator.tpu.RunConfig(tpu_config=TPUConfig(iterations_per_loop=100), model_dir="runs/a")

    A `cluster`, which is a ClusterResolver, overrides `master` and `evaluation_master`. Without any, they are those of
    TF_CONFIG or, without it, this process.
    """

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
        self._tpu_config = tpu_config or TPUConfig()
        self._cluster = cluster
        if master is not None:
            self._master = self._evaluation_master = master
        if evaluation_master is not None:
            self._evaluation_master = evaluation_master

    @property
    def tpu_config(self) -> TPUConfig:
        return self._tpu_config

    @property
    def cluster(self) -> tf.distribute.cluster_resolver.ClusterResolver | None:
        return self._cluster

    def replace(self, **changes: Any) -> RunConfig:
        """Returns a copy with `changes`: `tpu_config` or arguments of `estimator_train.RunConfig.replace`."""
        tpu_config = changes.pop("tpu_config", self.tpu_config)
        replaced: Any = super().replace(**changes)
        replaced._tpu_config = tpu_config
        return replaced
