"""tf.contrib.distribute: the strategies of tf.compat.v1, with arguments for the number of GPUs."""

from typing import Any, NamedTuple

import tensorflow as tf

from estimator_train._engine.distribution import absent_gpus, strategies

_v1 = tf.compat.v1.distribute


class DistributeConfig(NamedTuple):
    """The strategies of a tf.estimator.RunConfig, as its `experimental_distribute`; `remote_cluster` is ignored."""

    train_distribute: Any = None
    eval_distribute: Any = None
    remote_cluster: Any = None


def AllReduceCrossDeviceOps(
    all_reduce_alg="nccl", num_packs=1, agg_small_grads_max_bytes=0, agg_small_grads_max_group=10
):
    """Returns cross-device ops; `agg_small_grads_max_bytes` and `agg_small_grads_max_group` are ignored."""
    algorithms = {"nccl": _v1.NcclAllReduce, "hierarchical_copy": _v1.HierarchicalCopyAllReduce}
    if all_reduce_alg not in algorithms:
        raise ValueError(f"all_reduce_alg={all_reduce_alg!r}: use 'nccl' or 'hierarchical_copy'")
    return algorithms[all_reduce_alg](num_packs=num_packs)


class MirroredStrategy(tf.compat.v1.distribute.MirroredStrategy):
    """A MirroredStrategy over `devices`, the first `num_gpus` (or `num_gpus_per_worker`) GPUs, or all GPUs.

    `auto_shard_dataset` is ignored: RunConfig and the cluster's strategy determine how input is sharded.
    """

    def __init__(
        self,
        devices=None,
        num_gpus=None,
        num_gpus_per_worker=None,
        cross_device_ops=None,
        auto_shard_dataset=False,
        cross_tower_ops=None,
    ):
        if num_gpus is not None and num_gpus_per_worker is not None:
            raise ValueError("num_gpus and num_gpus_per_worker mean the same; give one")
        devices = _devices(devices, num_gpus_per_worker if num_gpus is None else num_gpus)
        super().__init__(devices, cross_device_ops or cross_tower_ops)
        if absent_gpus.are_absent(self.extended.worker_devices):  # --replicas puts CPUs in their place
            raise ValueError(
                f"MirroredStrategy over {', '.join(devices)}: TensorFlow sees "
                f"{len(tf.config.get_visible_devices('GPU'))} GPUs; estimator_train run --tf1 --replicas "
                f"{len(devices)} uses CPU replicas instead"
            )


def _devices(devices, num_gpus):
    if num_gpus is None:
        return devices
    if devices is not None:
        raise ValueError("devices and num_gpus exclude each other; give one")
    return [f"GPU:{index}" for index in range(num_gpus)] or ["CPU:0"]


class ParameterServerStrategy(tf.compat.v1.distribute.experimental.ParameterServerStrategy):
    """A strategy over the parameter servers and workers of TF_CONFIG, with `num_gpus_per_worker` GPUs per worker."""

    def __init__(self, num_gpus_per_worker=0):
        _show_gpus(num_gpus_per_worker)
        super().__init__()


class CollectiveAllReduceStrategy(tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy):
    """A synchronous strategy over the workers of TF_CONFIG, with `num_gpus_per_worker` GPUs per worker."""

    def __init__(self, num_gpus_per_worker=0):
        _show_gpus(num_gpus_per_worker)
        super().__init__(strategies.communication())


def _show_gpus(count):
    """Hides all but `count` GPUs from TensorFlow, because current strategies use all visible ones."""
    visible = tf.config.get_visible_devices("GPU")
    if count > len(visible):
        raise ValueError(f"num_gpus_per_worker={count}: TensorFlow sees only {len(visible)} GPUs")
    tf.config.set_visible_devices(visible[:count], "GPU")
