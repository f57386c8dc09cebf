"""Looks for GPUs without TensorFlow, for what has to be decided before it is imported."""

import glob
import os

# Of Linux, and of the Windows Subsystem for Linux. /proc lists a machine's GPUs in containers that have none of them.
_DEVICES = ("/dev/nvidia[0-9]*", "/usr/lib/wsl/lib/libcuda.so*")


def is_gpu_there() -> bool:
    """Returns whether NVIDIA's driver gives this process a GPU that CUDA_VISIBLE_DEVICES does not hide."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    return first.strip() not in ("", "-1") and any(map(glob.glob, _DEVICES))
