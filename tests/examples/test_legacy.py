"""Scripts of tf.estimator's days run untouched under `estimator_train run`, and give what TensorFlow 2.15 gave."""

import json
import os
from pathlib import Path

import pytest
import warm_python

ROOT = Path(__file__).resolve().parents[2]
LEGACY = ROOT / "examples" / "legacy"
SCRIPTS = {path: [] for path in LEGACY.glob("*.py")}
SCRIPTS |= {path: ["--tf1", "--replicas", "2"] for path in LEGACY.glob("tf1/*.py")}
# Written by `python -m benchmarks.compare_tf215 --write-expected`.
EXPECTED = json.loads((ROOT / "tests" / "data" / "tf215" / "results.json").read_text())


def name(script):
    return str(script.relative_to(LEGACY).with_suffix(""))


def close_to(value):
    """`value` with every number in it good to 1e-5, relative to max(1, |number|)."""
    if isinstance(value, dict):
        return {name: close_to(part) for name, part in value.items()}
    if isinstance(value, list):
        return [close_to(part) for part in value]
    return value if isinstance(value, str) else pytest.approx(value, rel=1e-5, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(SCRIPTS), ids=lambda script: name(script))
def test_script_gives_the_numbers_of_tensorflow_2_15(script, tmp_path):
    command = ["-m", "estimator_train", "run", *SCRIPTS[script], script, "--model_dir", tmp_path / "run"]
    # A GPU sums in another order; `run` sets TF_USE_LEGACY_KERAS itself.
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    environment["CUDA_VISIBLE_DEVICES"] = "-1"
    done = warm_python.run(command, tmp_path, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    results = [line.removeprefix("results: ") for line in done.stdout.splitlines() if line.startswith("results: ")]
    assert json.loads(results[-1]) == close_to(EXPECTED[name(script)])
