"""The part of run.json that says how a run came about: time, versions, devices."""

import datetime
import os
import platform
import subprocess

import numpy as np
import tensorflow as tf
import tf_keras as keras

from estimator_train import __version__


def provenance(strategy):
    """Returns a dict of these for training on the replicas of `strategy`."""
    return {
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "devices": _devices(strategy),
        "versions": {
            "estimator_train": __version__,
            "tensorflow": tf.__version__,
            "tf_keras": keras.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "git_commit": _git_commit(),
    }


def _devices(strategy):
    gpus = tf.config.get_visible_devices("GPU")
    names = ["/device:CPU:0"]
    if strategy:
        names = strategy.extended.worker_devices
    elif gpus:
        names = ["/device:GPU:0"]
    devices = []
    for spec in map(tf.DeviceSpec.from_string, names):
        kind = platform.machine()
        if spec.device_type == "GPU":
            kind = tf.config.experimental.get_device_details(gpus[spec.device_index]).get("device_name", "")
        devices.append(f"{spec.device_type}:{spec.device_index} {kind}".rstrip())
    return devices


def _git_commit():
    """Returns the current directory's commit, with "-dirty" if files have changed; None outside a repository.

    The repository may be somebody else's, so none of the programs that its configuration names is run.
    """
    try:
        commit = _git("rev-parse", "--verify", "HEAD").stdout.strip()
        filters = _git("config", "--null", "--name-only", "--get-regexp", r"^filter\.").stdout.split("\0")[:-1]
    except FileNotFoundError:  # git is not installed
        return None
    if not commit or any("=" in name for name in filters):  # -c could not turn such a filter off
        return commit or None
    without = [part for name in filters for part in ("-c", f"{name}=")]
    programs_off = ["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"]
    differs = _git(*without, "diff", "--quiet", *programs_off, "HEAD").returncode == 1
    if differs:
        return f"{commit}-dirty"
    return commit


def _git(*arguments):
    """Runs git without the monitor, the hooks and the downloads that a repository's configuration may ask for."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    environment = os.environ | {"GIT_NO_LAZY_FETCH": "1"}
    return subprocess.run([*command, *arguments], capture_output=True, text=True, env=environment)
