"""The names of this machine's processor and GPUs, found without TensorFlow, for people to read."""

import os
from collections.abc import Iterable
from pathlib import Path

_PROCESSORS = Path("/proc/cpuinfo")
_GPUS = Path("/proc/driver/nvidia/gpus")


def processor() -> str:
    """Returns the name of the processor, if Linux knows it, and how many of its cores this process may use."""
    cores = len(os.sched_getaffinity(0))
    counted = f"{cores} core{'s' * (cores > 1)}"
    return ", ".join([*_named("model name", [_PROCESSORS])[:1], counted])


def gpu() -> str | None:
    """Returns the name of the GPUs of NVIDIA's driver; None if it tells none, or several."""
    names = _named("Model", _GPUS.glob("*/information"))
    return names[0] if len(names) == 1 else None


def _named(key: str, files: Iterable[Path]) -> list[str]:
    """Returns the different values of `key` in files with lines such as `Model: NVIDIA H200`."""
    lines = [line.partition(":") for file in files if file.exists() for line in file.read_text().splitlines()]
    return sorted({value.strip() for name, _, value in lines if name.strip() == key})
