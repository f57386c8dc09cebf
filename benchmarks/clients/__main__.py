"""Checks that third-party packages that use tf.estimator give the same numbers with the drop-in as on TensorFlow 2.15.

    python -m benchmarks.clients [CLIENT ...] [--python tf215=PATH]

Each package's Estimators train, evaluate, predict and export, in a process of TensorFlow 2.15 with its own tf.estimator
and in a process of this environment after `import estimator_train.install`. pip installs each package, with only those
dependencies that are named here, into a directory in the platform's cache, which is added to the process's path; of
repositories that are no packages, small programs of our own stand in. It writes docs/clients.md unless clients are
named. Both sides run on the CPU.
"""

import argparse
import functools
import json
import os
import subprocess
import sys
from typing import NamedTuple

import platformdirs
from tabulate import tabulate

from benchmarks import peers
from benchmarks.clients import shims
from benchmarks.compare_tf215 import NO_GPU, ROOT, flat, shown
from benchmarks.runner import environment
from estimator_train.compat.verify import compare, tensorflow_version

PAGE = ROOT / "docs" / "clients.md"
TOLERANCE = 1e-5
STEPS = ("trains", "evaluates", "predicts", "exports")


class Client(NamedTuple):
    """A package in its last version with Estimators, the packages it needs, and the shims for the rest.

    Attributes:
      like: the repository in whose way a program of our own was written, if there is no package to install.
      tf1: whether it was written for TensorFlow 1.
    """

    package: str | None = None
    needs: tuple[str, ...] = ("six", "absl-py")
    shims: tuple[str, ...] = ()
    like: str | None = None
    tf1: bool = False

    @property
    def name(self):
        return self.package or f"a program like {self.like}"


CLIENTS = {
    "ctr": Client("deepctr==0.9.4", ("packaging",), ("no_requests",)),
    "lattice": Client("tensorflow-lattice==2.0.13", shims=("numpy_quantile",)),
    "ensembles": Client(
        "adanet==0.9.0",
        ("six", "absl-py", "packaging"),
        ("distutils_version", "training_tracking"),
    ),
    "gan": Client(
        "tensorflow-gan==2.1.0",
        ("six", "absl-py", "packaging"),
        ("distutils_version", "getargspec", "no_probability_and_hub"),
    ),
    "ranking": Client("tensorflow-ranking==0.5.5"),
    "privacy": Client(
        "tensorflow-privacy==0.9.0",
        ("dp-accounting==0.4.3", "attrs", "mpmath", "scipy", "absl-py", "packaging"),
        ("privacy_without_init",),
    ),
    "bert": Client("bert-tensorflow==1.0.4", ("six", "absl-py", "tf-slim==1.1.0"), ("tensorflow_1",), tf1=True),
    "tagger": Client(like="tf_ner", shims=("tensorflow_1",), tf1=True),
    "recommender": Client(like="EasyRec"),
}

T2T = "one like tensor2tensor's trainer"
RUN, RUN_TF1 = "`estimator_train run program.py`", "`estimator_train run --tf1 program.py`"
VERIFY = "`estimator_train verify program.py --python215 tf215/bin/python`"
VERIFY_TF1 = "`estimator_train verify program.py --tf1 --python215 tf115/bin/python`"
NEEDS = [
    ["`tf.estimator`, and names from its modules", "DeepCTR, AdaNet, EasyRec", RUN, VERIFY],
    ["the same, as a module of its package", "those of this page", "`estimator_train run -m package.module`",
     "`estimator_train verify -m package.module --python215 tf215/bin/python`"],
    ["TensorFlow 1 as `tensorflow`, and `tf.contrib`", "BERT, tf_ner, DCN, NFM", RUN_TF1, VERIFY_TF1],
    ["`tf.contrib.slim`, `layers` or `framework`", T2T, "the same, after `pip install tf-slim`", VERIFY_TF1],
    ["`tf.contrib.gan`", "GANEstimator", "the same, after `pip install tensorflow-gan`", VERIFY_TF1],
    ["`tf.contrib.learn.Experiment` and `learn_runner`", T2T, "the same", VERIFY_TF1],
    ["`TPUEstimator`", "BERT, TF-GAN", "`use_tpu=False`, with or without `--tf1`", "as without TPUs"],
    ["GPUs that are missing", "those in examples/legacy/tf1", "`estimator_train run --tf1 --replicas 2 program.py`",
     "`python -m benchmarks.compare_tf215`"],
]  # fmt: skip

# What `estimator_train verify` has found, with the command where it is the one of a program of ours.
OURS = "-m benchmarks.clients.run --python215 tf215/bin/python --"
VERIFIED = [
    ["DeepCTR 0.9.4: DeepFM, WDL, xDeepFM", "2.15.1", f"`{OURS} ctr --keep --shims no_requests`", "72642", "7.3e-07"],
    ["TensorFlow Privacy 0.9.0, its four Estimators", "2.15.1",
     f"`{OURS} privacy --keep --shims privacy_without_init`", "3306", "0.0e+00"],
    ["a program like EasyRec", "2.15.1", f"`{OURS} recommender --keep`", "2344", "2.4e-07"],
    ["[surnames_rnn.py](../examples/legacy/tf1/surnames_rnn.py), unmodified on both sides", "1.15.5",
     "`surnames_rnn.py --tf1 --same-initial-values --python215 tf115/bin/python`", "14348", "3.0e-07"],
    ["a program of DeepCTR's repository, its checkpoints", "2.15.1", "", "", "2.3e-06"],
    ["DCN, DeepFM, NFM and DeepMVM of a public repository", "1.15.5", "with `--tf1`", "", "6e-08 to 1e-05"],
]  # fmt: skip

TEXT = """# Packages that were written for tf.estimator

Written by `python -m benchmarks.clients`.

Third-party packages test whether [the drop-in](migrating.md) keeps what programs rely on. The last version of each
that has Estimators ran unmodified on TensorFlow {old} with its own tf.estimator, and on TensorFlow {new} after
`import estimator_train.install`, with {python}, on the CPU. The programs in
[benchmarks/clients](../benchmarks/clients) train each Estimator for a few steps, evaluate it, predict, export it and
call the exported model; both sides run the same programs. For tf_ner and EasyRec, programs of our own stand in that are
written in the same way. Those for TensorFlow 1, such as BERT, ran with TensorFlow 2 behavior off, here after
`import estimator_train.install_tf1`.

The columns in the middle list the steps that ran, followed by the error if one failed. Values are metrics, predictions
and outputs of the exported model. Differences are relative to the old value, or absolute if that is below 1; up to
{tolerance:g} is allowed.

{table}

## Programs by what they need

{needs}

The one like tensor2tensor's trainer is among [the tests](../tests/compat/test_programs.py); the others are in the
tables of this page. [`estimator_train scan`](migrating.md#which-names-a-program-needs) says which names of your program
work, and [`estimator_train verify`](migrating.md#the-same-results-as-before) whether its results are the same; that
section says how to get TensorFlow 2.15 and 1.15.

## Whole programs that `verify` compared

`verify` compares all that a program leaves: its checkpoints, event files, exports and what it prints. These ran once,
by hand; the command above does not repeat them.

{verified}

`python -m benchmarks.clients` has installed the packages, whose folders are then on PYTHONPATH. The repositories in the
last two rows are no packages; their programs were measured from their sources in November 2026. Of 35 programs in 22
public repositories, 15 ran unmodified then, 4 after a change that [migrating.md](migrating.md) names, and 2 stopped at
names that were missing here; the other 14 stopped elsewhere. In 56 repositories with 17,326 files, `scan` found that
99.2 % of the names of TensorFlow work, and all of them in 800 of the 963 files that use Estimators.

## Shims

Since these packages were written, Python, NumPy and TensorFlow have removed names, and some packages import more than
their Estimators need. [benchmarks/clients/shims.py](../benchmarks/clients/shims.py) provides replacements from outside;
the packages themselves are as pip installs them, and tf.estimator is not changed.

{shims}
"""


def main():
    parser = argparse.ArgumentParser(
        "python -m benchmarks.clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"clients to run, from {', '.join(CLIENTS)} [all]")
    parser.add_argument(
        "--python",
        type=peers.peer_and_path,
        action="append",
        default=[],
        metavar="PEER=PATH",
        help="run the peer tf215 in this Python instead of its own environment",
    )
    args = parser.parse_args()
    if unknown := set(args.clients) - CLIENTS.keys():
        parser.error(f"there is no client {', '.join(sorted(unknown))}; there are {', '.join(CLIENTS)}")
    pythons = {"tf215": dict(args.python).get("tf215") or peers.set_up("tf215"), "ours": sys.executable}
    versions = [tensorflow_version(python) for python in pythons.values()]

    rows, needed = [], []
    for name in args.clients or CLIENTS:
        old, new = (run(name, side, python) for side, python in pythons.items())
        for case in {**old["cases"], **new["cases"]} or ["its import"]:
            # A side that cannot import the package has an error and no cases.
            rows.append(row(name, case, *(side["cases"].get(case) or {"error": side["error"]} for side in (old, new))))
        for shim in CLIENTS[name].shims:
            on = [version for version, side in zip(versions, (old, new), strict=True) if shim in side["shims"]]
            if on:
                stands_in = getattr(shims, shim).__doc__.splitlines()[0]
                needed.append([CLIENTS[name].name, stands_in, ", ".join(on)])

    headers = ["package", "Estimator", *versions, *(f"loss, {version}" for version in versions), "values", "difference"]
    table = functools.partial(tabulate, tablefmt="github", disable_numparse=True)
    tables = table(rows, headers), table(needed, ["package", "stands in", "on TensorFlow"])
    print("\n\n".join(tables))
    if not args.clients:
        old, new = versions
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        needs = table(NEEDS, ["a program that needs", "such as", "runs with", "is compared by"])
        verified = table(VERIFIED, ["program", "old side", "behind `estimator_train verify`", "values", "difference"])
        versions_and_tolerance = {"old": old, "new": new, "python": python, "tolerance": TOLERANCE}
        page = TEXT.format(**versions_and_tolerance, table=tables[0], needs=needs, verified=verified, shims=tables[1])
        PAGE.write_text(page)
    whole = ", ".join(STEPS)
    wrong = [each[1] for each in rows if each[3] != whole or (each[2] == whole and float(each[-1]) > TOLERANCE)]
    if wrong:
        sys.exit(f"TensorFlow {versions[1]} stops or differs in {', '.join(wrong)}.")


def row(name, case, old, new):
    """Returns the table row for one Estimator of a package."""
    both = [{step: side[step] for step in STEPS if step in side} for side in (old, new)]
    ends = [
        ", ".join([*steps, *filter(None, [side.get("error")])]) for steps, side in zip(both, (old, new), strict=True)
    ]
    losses = [shown(steps["evaluates"]["loss"]) if "evaluates" in steps else "" for steps in both]
    comparison = compare(*map(flat, both))
    return [CLIENTS[name].name, case, *ends, *losses, comparison.values, f"{comparison.largest:.1e}"]


def run(name, side, python):
    """Runs `benchmarks.clients.run` for a client on one side and returns its results."""
    client = CLIENTS[name]
    flags = [*(["--ours"] if side == "ours" else []), *(["--tf1"] if client.tf1 else [])]
    command = [python, "-m", "benchmarks.clients.run", name, *flags]
    places = [installed(client, python), ROOT] if client.package else [ROOT]
    path = os.pathsep.join(map(str, places))
    done = subprocess.run(
        [*command, "--shims", *client.shims],
        env=environment() | NO_GPU | {"PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("results: ")]
    if done.returncode or not lines:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}:\n{done.stderr[-2000:]}")
    result = json.loads(lines[-1].removeprefix("results: "))
    if any("error" in each for each in (result, *result["cases"].values())):
        print(done.stderr[-2000:], file=sys.stderr)
    return result


def installed(client, python):
    """Returns the directory of a package and its dependencies for a Python, installing them if necessary."""
    tag = "import sys; print(sys.implementation.cache_tag)"
    tag = subprocess.run([python, "-c", tag], check=True, capture_output=True, text=True).stdout.strip()
    folder = platformdirs.user_cache_path("estimator_train") / "clients" / tag / client.package.replace("==", "-")
    if not folder.exists():
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode:
            sys.exit(f"{python} has no pip to install {client.package}; run: {python} -m ensurepip --upgrade")
        # TensorFlow is installed already, in a version that the package does not support.
        part = folder.with_name(f"{folder.name}.part")
        pip = [python, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps", "--target", part]
        if subprocess.run([*pip, client.package, *client.needs]).returncode:
            sys.exit(f"pip could not install {client.package} for {python}; its reason is above.")
        part.rename(folder)
    return folder


if __name__ == "__main__":
    main()
