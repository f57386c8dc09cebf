"""The environments in which the sides of benchmarks run."""

import argparse
import os
import shutil
import subprocess
import sys

import platformdirs

_CUDA = "[and-cuda]" if shutil.which("nvidia-smi") else ""

# Packages for pip. `ours` runs in the environment in which the benchmark was started.
REQUIREMENTS = {
    "ours": None,
    "tf215": [f"tensorflow{_CUDA}==2.15.1"],
    "tf_keras": [f"tensorflow{_CUDA}==2.21.*", "tf-keras==2.21.*"],
    "keras3": [f"tensorflow{_CUDA}==2.21.*", "keras>=3,<4"],
    "torch": ["torch>=2,<3", "torchvision"],
}


def set_up(peer):
    """Returns the path of a Python with the peer, in the platform's cache; creates its environment if missing."""
    if REQUIREMENTS[peer] is None:
        return sys.executable
    folder = platformdirs.user_cache_path("estimator_train") / peer
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        subprocess.run([_base_python(peer), "-m", "venv", folder], check=True)
    # Runs every time, to complete an interrupted installation; it is fast if nothing is missing.
    subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS[peer]], check=True)
    return str(python)


def peer_and_path(text):
    """Parses PEER=PATH into the peer and the path, for argparse."""
    peer, _, path = text.partition("=")
    if peer not in REQUIREMENTS or not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(f"{text!r} is not PEER=PATH, such as tf215=/usr/bin/python3.11")
    return peer, path


def _base_python(peer):
    if peer != "tf215" or sys.version_info < (3, 12):
        return sys.executable
    found = [shutil.which(name) for name in ("python3.11", "python3.10", "python3.9")]
    base = next(filter(None, found), None)
    if base is None:
        sys.exit("TensorFlow 2.15 needs Python 3.9 to 3.11, and there is none on the PATH; give --python tf215=PATH.")
    return base
