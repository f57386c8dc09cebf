"""The suite itself: every process collects the same tests, and none sees a GPU unless `-m gpu` asks for them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm_python

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_a_later_collection_with_another_hash_seed_has_the_same_ids(request):
    config = request.config
    options = ["-q", "--collect-only", "-n", "0", "-m", config.option.markexpr, "-k", config.option.keyword]
    again = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *config.args],
        env=os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stdout[-2000:]
    assert [line for line in again.stdout.splitlines() if "::" in line] == [item.nodeid for item in request.session.items]


@pytest.mark.parametrize(("options", "seen"), [("", 0), ("'-m', 'gpu', ", 2)], ids=["default", "gpu"])
def test_gpus_are_hidden_unless_they_are_asked_for(options, seen, tmp_path):
    code = f"""
import os, pytest
pytest.main([{options}"-q", "--collect-only", "-n", "0", "tests/test_inputs.py"])
print(len(tf.config.get_visible_devices("GPU")), os.environ.get("CUDA_VISIBLE_DEVICES"))
print(os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH"))
"""
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    done = warm_python.run(["-m", "tests.helpers.pretended_gpus", 2, code], tmp_path, cwd=ROOT, env=environment)
    expected = ["2 None", "true"] if seen else ["0 -1", "None"]
    assert done.stdout.splitlines()[-2:] == expected, done.stderr[-2000:]
