"""The devices that are measured: how many there are, and what they tell of a training."""

import json
import platform
import shutil
import subprocess
from pathlib import Path


def describe():
    """How many GPUs TensorFlow sees, and the names and versions of what computes: a dict."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus]
    versions = {"python": platform.python_version(), "TensorFlow": tf.__version__}
    if gpus:
        versions["CUDA"] = tf.sysconfig.get_build_info()["cuda_version"]
        versions["driver"] = next(iter(_of_nvidia_smi("driver_version")), "unknown")
    return {"gpus": len(gpus), "names": sorted(set(names)), "versions": versions}


def peak_bytes(devices):
    """The most bytes of tensors on one of the GPUs so far; None on CPUs, which TensorFlow does not count."""
    import tensorflow as tf

    gpus = [name for name in devices if name.startswith("GPU")]
    return max((tf.config.experimental.get_memory_info(gpu)["peak"] for gpu in gpus), default=None)


def taken_bytes(devices):
    """The bytes of one of the GPUs that are taken from the machine, by this process and others; None on CPUs."""
    if not devices[0].startswith("GPU"):
        return None
    used = [float(mebibytes) * 2**20 for mebibytes in _of_nvidia_smi("memory.used")]
    return max(used, default=None)


def _of_nvidia_smi(field):
    """A text for each GPU; none where the program is not there."""
    if not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def idle_share(folder):
    """The share of the time of a profile in which no kernel ran on a GPU, the mean of all GPUs; None without kernels.

    The time is that from the beginning of the first kernel to the end of the last; copies are no kernels.

    Args:
      folder: where `tf.profiler.experimental` has written one profile.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (path,) = Path(folder).rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    gpus = [_kernels(plane) for plane in space.planes if plane.name.startswith("/device:GPU:")]
    shares = [_idle(kernels) for kernels in gpus if kernels]
    return sum(shares) / len(shares) if shares else None


def _kernels(plane):
    """(begin, end) in picoseconds of the kernels on all streams of a GPU, in order."""
    names = {number: metadata.name for number, metadata in plane.event_metadata.items()}
    kernels = []
    for line in plane.lines:
        if line.name.startswith("Stream"):  # others repeat the same time by op or by step
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
