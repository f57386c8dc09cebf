"""estimator_train launch: several processes with their TF_CONFIG, which end together."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def launch(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "estimator_train", "launch", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(text)
        return path

    return write


@pytest.mark.slow
def test_a_cluster_of_all_tasks_trains_and_ends(tmp_path):
    train = ROOT / "tests" / "data" / "cluster" / "train.py"
    done = launch("--workers", 2, "--ps", 1, "--evaluator", "--", "run", train, tmp_path / "run", 60, 0.01)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("chief 0", "worker 0", "ps 0", "evaluator 0"):
        assert f"\n[{name}] " in done.stdout
    assert (tmp_path / "run" / "checkpoint").exists()


@pytest.mark.slow
def test_the_first_failure_stops_the_others_and_is_the_exit_code(script):
    path = script(
        "import json, os, sys, time\n"
        "task = json.loads(os.environ['TF_CONFIG'])['task']\n"
        "print('here is', task['type'], sys.argv[1:], flush=True)\n"
        "time.sleep(100) if task['type'] == 'chief' else sys.exit(7)\n"
    )
    done = launch("--workers", 2, "--", "run", path, "--its", "own")
    assert done.returncode == 7
    assert "[worker 0] here is worker ['--its', 'own']" in done.stdout
    assert "worker 0 failed with exit code 7; stopping the others" in done.stderr


def test_nothing_to_start_is_an_error():
    done = launch("--workers", 2)
    assert done.returncode == 2
    assert "Missing argument 'ARGUMENTS...'" in done.stderr
