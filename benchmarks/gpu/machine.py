"""Describes the devices, and reads their memory use and idle time during training."""

import json
import platform
import shutil
import subprocess
from pathlib import Path


def describe():
    """Returns a dict with the number of GPUs that TensorFlow sees, their names, and software versions."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus]
    versions = {"python": platform.python_version(), "TensorFlow": tf.__version__}
    if gpus:
        versions["CUDA"] = tf.sysconfig.get_build_info()["cuda_version"]
        versions["driver"] = next(iter(_of_nvidia_smi("driver_version")), "unknown")
    return {"gpus": len(gpus), "names": sorted(set(names)), "versions": versions}


def peak_bytes(devices):
    """Returns the peak bytes of tensors on any of the GPUs; None on CPUs, for which TensorFlow has no count."""
    import tensorflow as tf

    gpus = [name for name in devices if name.startswith("GPU")]
    return max((tf.config.experimental.get_memory_info(gpu)["peak"] for gpu in gpus), default=None)


def taken_bytes(devices):
    """Returns the most bytes in use on any of the GPUs, by this process and others; None on CPUs."""
    if not devices[0].startswith("GPU"):
        return None
    used = [float(mebibytes) * 2**20 for mebibytes in _of_nvidia_smi("memory.used")]
    return max(used, default=None)


def _of_nvidia_smi(field):
    """Returns a text for each GPU; none if nvidia-smi is not installed."""
    if not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def idle_share(folder):
    """Returns the share of a profile's time without a running kernel, averaged over GPUs; None without kernels.

    The time is from the start of the first kernel to the end of the last; copies do not count as kernels.

    Args:
      folder: directory with one profile written by `tf.profiler.experimental`.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (path,) = Path(folder).rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    gpus = [_kernels(plane) for plane in space.planes if plane.name.startswith("/device:GPU:")]
    shares = [_idle(kernels) for kernels in gpus if kernels]
    return sum(shares) / len(shares) if shares else None


def _kernels(plane):
    """Returns (begin, end) in picoseconds of the kernels on all streams of a GPU, in order."""
    names = {number: metadata.name for number, metadata in plane.event_metadata.items()}
    kernels = []
    for line in plane.lines:
        if line.name.startswith("Stream"):  # other lines repeat the same time by op or by step
            for event in line.events:
                if not names[event.metadata_id].startswith("Mem"):  # such as MemcpyH2D
                    begin = 1000 * line.timestamp_ns + event.offset_ps
                    kernels.append((begin, begin + event.duration_ps))
    return sorted(kernels)


def _idle(kernels):
    first, busy_until = kernels[0][0], kernels[0][0]
    idle = 0
    for begin, end in kernels:
        idle += max(begin - busy_until, 0)
        busy_until = max(busy_until, end)
    return idle / (busy_until - first)


if __name__ == "__main__":
    print(json.dumps(describe()))
