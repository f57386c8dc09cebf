"""Scan finds in files the names that an import finds, and no others."""

import json
from pathlib import Path

import imported_names
import pytest
import warm_python

from estimator_train.compat.scan.lookup import Lookup, Reference

ROOT = Path(__file__).parents[3]
# Programs and tests of old names, the examples, and where they are, those that issues refer to.
PROGRAMS = [ROOT / name for name in ("tests/compat", "tests/data", "examples", "benchmarks", "../shared/repro")]


@pytest.fixture(scope="module")
def lookups():
    return Lookup(tf1=False), Lookup(tf1=True)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["as_it_is", "tf1"])
def test_names_are_found_that_can_be_imported(mode, tmp_path):
    folders = [folder for folder in PROGRAMS if folder.is_dir()]
    done = warm_python.run([imported_names.__file__, mode, *folders], tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["public"] > 5000 and not result["differing"]
    assert result["uses"] > 1500 and not result["wrong"]


@pytest.mark.parametrize(
    ("reference", "as_it_is", "under_tf1"),
    [
        (Reference("tensorflow", attributes=("Session", "run")), (False, "Session"), (True, "Session")),
        (Reference("tensorflow", attributes=("contrib", "crf", "x")), (False, "contrib"), (False, "contrib.crf.x")),
        (Reference("tensorflow", attributes=("python", "ops")), (False, "python"), (False, "python")),
        (Reference("tensorflow.python", "ops"), (True, "python.ops"), (True, "python.ops")),
        (Reference("tensorflow.losses", "huber_loss"), (False, "losses"), (True, "losses.huber_loss")),
        (
            Reference("tensorflow.python.training.training_ops", "apply_adams"),
            (False, "python.training.training_ops.apply_adams"),
            (False, "python.training.training_ops.apply_adams"),
        ),
        (Reference("tensorflow.estimator.inputs"), (False, "estimator.inputs"), (True, "estimator.inputs")),
        (
            Reference("tensorflow", attributes=("keras", "utils", "set_random_seed")),
            (True, "keras.utils.set_random_seed"),
            (False, "keras.utils.set_random_seed"),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Reference) else "",
)
def test_the_first_part_that_is_absent_or_no_module_decides(reference, as_it_is, under_tf1, lookups):
    for lookup, (found, reached) in zip(lookups, (as_it_is, under_tf1), strict=True):
        assert lookup.find(reference) == (found, f"tensorflow.{reached}")
