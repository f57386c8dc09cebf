"""Tries a few faults of each campaign; `python -m tests.faults` tries as many as docs/reliability.md reports."""

import importlib
import os
import resource
import subprocess
import sys

import pytest

from tests.faults import __main__ as campaigns
from tests.faults import folders
from tests.faults.runs import Row

# Images and tables have a separate test, and tests/distribution kills tasks of clusters.
COUNTS = {
    "archives": 100,
    "checkpoints": 10,
    "crashes": 1,
    "cycles": 4,
    "disks": 1,
    "folders": 6,
    "kills": 2,
    "resumed_input": 1,
    "signals": 1,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_a_few_faults_break_no_promise(name, tmp_path):
    rows = importlib.import_module(f"tests.faults.{name}").run(COUNTS[name], 1, tmp_path)
    assert rows and not [row for row in rows if row.fault]


@pytest.mark.slow
def test_odd_tables_and_weights_need_no_more_than_8_gib_of_addresses(tmp_path):
    def limit_memory():
        resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))

    command = [sys.executable, "-m", "tests.faults", "tables", "--count", "20"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, preexec_fn=limit_memory, env=environment, capture_output=True, text=True)
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
