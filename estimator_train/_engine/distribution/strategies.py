"""Creates strategies over GPUs, CPU replicas or TF_CONFIG's cluster, and sets up their devices."""

import os
import signal
import threading
from collections.abc import Iterable

import tensorflow as tf

from estimator_train._engine.distribution.addresses import check_address
from estimator_train._engine.distribution.private_tensorflow import leaves_out_a_replica
from estimator_train._engine.host import launchers
from estimator_train._engine.host.cluster_task import ClusterTask, read_tf_config
from estimator_train._engine.remedies import ArgumentError, Setting


def gpus(count: int, *, all_reduce: str | None = None) -> tf.distribute.MirroredStrategy:
    """Returns a `tf.distribute.MirroredStrategy` over the first `count` visible GPUs.

    ::

        config = et.RunConfig(model_dir, train_distribute=distribution.gpus(2))

    Other GPUs are hidden from this process, and memory growth is enabled on the chosen ones. TensorFlow allows this
    only before it opens its devices, which building a model does; afterwards, the first GPUs are used as they are.

    Args:
      all_reduce: how to sum gradients: "nccl", "hierarchical" (only an even number), "one_device", or None for
        TensorFlow's choice, NCCL.

    Raises ValueError if fewer GPUs are visible, or `all_reduce` does not work for `count` GPUs.
    """
    return _mirrored(show_gpus(count), all_reduce)


def cpu_replicas(count: int, *, all_reduce: str | None = None) -> tf.distribute.MirroredStrategy:
    """Returns a `tf.distribute.MirroredStrategy` over `count` logical CPU devices, which exist on every machine.

    ::

        config = et.RunConfig(model_dir, train_distribute=distribution.cpu_replicas(2))

    `all_reduce` is as for `gpus`, except "nccl".

    Raises:
      ValueError: `all_reduce` is "nccl", or does not work for `count` replicas.
      RuntimeError: TensorFlow has already been initialized with fewer devices; call this before any other use of it.
    """
    if all_reduce == "nccl":
        raise _unfit_all_reduce(all_reduce, "needs GPUs; for CPU replicas, use hierarchical or one_device")
    return _mirrored(logical_cpus(count), all_reduce)


def devices_to_split_over(count: int) -> list[str]:
    """Returns the names of the first `count` GPUs, chosen as by `gpus`, or of logical CPU devices if there is no GPU.

    Raises ValueError if there are GPUs, but fewer; RuntimeError as `cpu_replicas` does.
    """
    if not tf.config.get_visible_devices("GPU"):
        return logical_cpus(count)
    return _show_first(Setting("split_over", "devices_to_split_over({})", count))


def logical_cpus(count: int) -> list[str]:
    """Returns the names of `count` logical CPU devices, creating them if needed; RuntimeError as `cpu_replicas`."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    there = len(tf.config.get_logical_device_configuration(cpu) or "1")  # a CPU that nobody divided is one device
    if there < count:
        try:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
        except RuntimeError as error:
            raise RuntimeError(
                f"{count} logical CPU devices must be created before TensorFlow is used; it has started with {there}. "
                "Ask for them first, before a model is built"
            ) from error
    return [f"CPU:{index}" for index in range(count)]


def _mirrored(devices: list[str], all_reduce: str | None) -> tf.distribute.MirroredStrategy:
    reductions = {
        "nccl": tf.distribute.NcclAllReduce,
        "hierarchical": tf.distribute.HierarchicalCopyAllReduce,
        "one_device": tf.distribute.ReductionToOneDevice,
    }
    if all_reduce == "ring":
        raise _unfit_all_reduce(all_reduce, f"is for TF_CONFIG's workers; use {', '.join(reductions)}, or leave it out")
    reduction = reductions[all_reduce]() if all_reduce else None
    strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction)
    if leaves_out_a_replica(strategy):
        raise _unfit_all_reduce("hierarchical", f"needs an even number of replicas, not {len(devices)}; use another")
    return strategy


def multi_worker(
    gpus: int | None = None, *, all_reduce: str | None = None
) -> tf.distribute.MultiWorkerMirroredStrategy | None:
    """Returns a `tf.distribute.MultiWorkerMirroredStrategy` for TF_CONFIG's cluster.

    ::

        strategy = distribution.multi_worker(8)
        config = et.RunConfig(model_dir, train_distribute=strategy)

    Returns None in the evaluator, where TensorFlow cannot create the strategy. If TF_CONFIG is not set, it is set from
    the variables of Slurm's srun, SageMaker or Vertex AI, if these have started several tasks; if it is empty, which
    TensorFlow cannot read, it is removed. Call the function before any other use of TensorFlow.

    Args:
      gpus: number of GPUs per worker; None means all of them. A worker without GPUs is a CPU replica.
      all_reduce: how to sum gradients: "nccl", "ring" (messages over gRPC), or None for NCCL on GPUs and a ring on
        CPUs. TensorFlow's own constructor takes the ring on GPUs, too.

    Raises ValueError if TF_CONFIG is invalid, or this task cannot listen at its address, or has too few GPUs.
    """
    launchers.set_tf_config()
    task = ClusterTask.from_tf_config(read_tf_config(), synchronous=True)
    if task.is_evaluator:
        return None
    if task.cluster:
        check_address(task.task_type, task.task_id, task.cluster[task.task_type][task.task_id])
    if gpus is not None:
        _show_first(Setting("gpus", "gpus={}", gpus))
    if os.environ.get("TF_CONFIG") == "":
        del os.environ["TF_CONFIG"]
    options = tf.distribute.experimental.CommunicationOptions(implementation=communication(all_reduce))
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    if threading.current_thread() is threading.main_thread():
        # TensorFlow now catches SIGTERM, for its PreemptionCheckpointHandler, and the process would ignore it.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy


def communication(all_reduce: str | None = None) -> tf.distribute.experimental.CommunicationImplementation:
    """Returns how workers with the visible GPUs sum gradients; see `multi_worker`."""
    implementations = tf.distribute.experimental.CommunicationImplementation
    if all_reduce is None and nccl_sums_over_gpus():
        return implementations.NCCL
    if all_reduce is None:
        return implementations.RING
    if all_reduce not in ("nccl", "ring"):
        raise _unfit_all_reduce(all_reduce, "is for the replicas of one process; workers use nccl or ring")
    if all_reduce == "nccl" and not tf.config.get_visible_devices("GPU"):
        raise _unfit_all_reduce(all_reduce, "needs GPUs, and this worker sees none; use ring, or leave it out")
    return implementations[all_reduce.upper()]


def nccl_sums_over_gpus() -> bool:
    """Returns whether TensorFlow sees GPUs, none of them divided into several logical devices, which NCCL refuses."""
    gpus = tf.config.get_visible_devices("GPU")
    return bool(gpus) and all(len(tf.config.get_logical_device_configuration(gpu) or ()) < 2 for gpu in gpus)


def show_gpus(count: int) -> list[str]:
    """Hides all GPUs but the first `count` visible ones from TensorFlow, and enables memory growth on these.

    Returns their names. Once TensorFlow has opened its devices, they stay as they are. Raises ValueError if fewer GPUs
    are visible.
    """
    replicas = Setting("replicas", "cpu_replicas({})", count, "use {} for CPU replicas")
    return _show_first(Setting("gpus", "gpus({})", count), replicas)


def _unfit_all_reduce(value: str | None, fault: str) -> ArgumentError:
    return ArgumentError(Setting("all_reduce", "all_reduce={!r}", value), f" {fault}")


def _show_first(given: Setting, *instead: Setting) -> list[str]:
    """Like `show_gpus`, for as many GPUs as `given` says; if there are fewer, the error suggests `instead`, too."""
    visible = tf.config.get_visible_devices("GPU")
    there, first = len(visible), visible[: given.value]
    if given.value > there:
        if there:
            instead = given._replace(value=there, words="use {}"), *instead
        raise ArgumentError(given, f": TensorFlow sees {there}", *instead)
    # TensorFlow refuses to start if memory growth differs between the GPUs that it sees.
    try:
        tf.config.set_visible_devices(first, "GPU")
        let_memory_grow(first)
    except RuntimeError as error:  # TensorFlow has opened its devices; they are used as they are
        there = len(tf.config.list_logical_devices("GPU"))
        if there < given.value:
            raise ArgumentError(given, f": TensorFlow has already started with {there} GPUs") from error
    return [f"GPU:{index}" for index in range(given.value)]


def let_memory_grow(gpus: Iterable[tf.config.PhysicalDevice] | None = None) -> None:
    """Lets TensorFlow allocate GPU memory as needed, on all visible GPUs by default.

    A GPU that the program has divided into logical devices keeps their limits.
    """
    for gpu in tf.config.get_visible_devices("GPU") if gpus is None else gpus:
        if tf.config.get_logical_device_configuration(gpu) is None:
            tf.config.experimental.set_memory_growth(gpu, True)
