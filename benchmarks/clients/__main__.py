"""Packages of others that train through tf.estimator, on TensorFlow 2.15 and through the drop-in: what comes of it?

    python -m benchmarks.clients [CLIENT ...] [--python tf215=PATH]

Each package's Estimators train, evaluate, predict and export, in a process of TensorFlow 2.15 with its own tf.estimator
and in one of this environment, after `import estimator_train.install`. Packages are installed in the platform's cache
folder, without what they depend on: TensorFlow is there, and the rest is named here. Writes docs/clients.md, unless
only some of the clients are named.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from typing import NamedTuple

import platformdirs
from tabulate import tabulate

from benchmarks import peers
from benchmarks.clients import shims
from benchmarks.compare_tf215 import NO_GPU, ROOT, compare, flat, shown, tensorflow_version
from benchmarks.runner import environment

PAGE = ROOT / "docs" / "clients.md"
TOLERANCE = 1e-5


class Client(NamedTuple):
    package: str
    needs: tuple[str, ...]
    shims: tuple[str, ...] = ()


CLIENTS = {
    "ctr": Client("deepctr==0.9.4", ("packaging",), ("no_requests",)),
    "lattice": Client("tensorflow-lattice==2.0.13", ("six", "absl-py"), ("numpy_quantile",)),
    "ensembles": Client(
        "adanet==0.9.0",
        ("six", "absl-py"),
        ("distutils_version", "python_keras_metrics", "training_tracking"),
    ),
    "gan": Client(
        "tensorflow-gan==2.1.0",
        ("six", "absl-py"),
        ("distutils_version", "getargspec", "no_probability_and_hub"),
    ),
    "ranking": Client("tensorflow-ranking==0.5.5", ("six", "absl-py")),
    "privacy": Client(
        "tensorflow-privacy==0.9.0",
        ("dp-accounting==0.4.3", "attrs", "mpmath", "scipy", "absl-py", "packaging"),
        ("privacy_without_init",),
    ),
}

TEXT = """# Packages that were written for tf.estimator

Written by `python -m benchmarks.clients`.

"""


def main():
    parser = argparse.ArgumentParser(
        "python -m benchmarks.clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(CLIENTS)}; none: all")
    parser.add_argument("--python", default=[], action="append")
    args = parser.parse_args()
    pythons = {"tf215": "/work/venv215/bin/python", "ours": sys.executable}
    for name in args.clients or CLIENTS:
        for side, python in pythons.items():
            r = run(name, side, python); [c.get("export", {}).pop("served", 0) for c in r["cases"].values()]; print(name, side, json.dumps(r, indent=0).replace("\n", " "))


def run(name, side, python):
    client = CLIENTS[name]
    folder = platformdirs.user_cache_path("estimator_train") / "clients" / side / name
    if not folder.exists():
        pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, client.package, *client.needs]
        subprocess.run(pip, check=True)
    command = [python, "-m", "benchmarks.clients.run", name, *(["--ours"] if side == "ours" else []), "--shims", *client.shims]
    paths = [folder, ROOT]
    env = environment() | NO_GPU | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    sys.stderr.write("\n".join(done.stderr.splitlines()[-30:]) if '"error"' in done.stdout or done.returncode else "")
    lines = [line for line in done.stdout.splitlines() if line.startswith("results: ")]
    return json.loads(lines[-1].removeprefix("results: "))


if __name__ == "__main__":
    main()
