"""Tries a few faults of each campaign; `python -m tests.faults` tries as many as docs/reliability.md reports."""

import importlib
import os

import pytest
import warm_python

from tests.faults import __main__ as campaigns
from tests.faults import folders, runs
from tests.faults.runs import Row

# Images and tables have a separate test, and tests/distribution kills tasks of clusters.
COUNTS = {
    "archives": 100,
    "checkpoints": 5,
    "crashes": 1,
    "cycles": 4,
    "disks": 1,
    "folders": 2,
    "kills": 1,
    "resumed_input": 1,
    "signals": 1,
}
BESIDE_ONE_RUN = ("disks", "kills", "signals")  # in one folder they share what they compare with


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("beside-one-run")


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_a_few_faults_break_no_promise(name, shared, monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "STEPS", 12)  # seven checkpoints, of which five are kept
    folder = shared if name in BESIDE_ONE_RUN else tmp_path
    rows = importlib.import_module(f"tests.faults.{name}").run(COUNTS[name], 1, folder)
    assert rows and not [row for row in rows if row.fault]


# The campaign draws these first. A shape and an image among them claim gigabytes.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
from tests.faults.__main__ import main
sys.argv = ["faults", "tables", "--count", "10"]
sys.exit(main())
"""


@pytest.mark.slow
def test_odd_tables_and_weights_need_no_more_than_8_gib_of_addresses(tmp_path):
    (tmp_path / "limited.py").write_text(LIMITED)
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = warm_python.run([tmp_path / "limited.py"], tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_there_are_forty_kinds_of_damaged_folders():
    assert len(folders.KINDS) >= 40


def test_the_command_prints_a_line_for_each_fault_and_ends_with_1(monkeypatch, capsys):
    module = importlib.import_module("tests.faults.archives")
    rows = [Row("a", "refused", None), Row("b", "", "left a file")]
    monkeypatch.setattr(module, "run", lambda count, seed, folder: rows[:count])
    monkeypatch.setattr("sys.argv", ["faults", "archives", "--count", "2"])
    assert campaigns.main() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "FAULT in archives: b: left a file"
    monkeypatch.setattr("sys.argv", ["faults", "archives", "--count", "1"])
    assert campaigns.main() == 0
