"""Plans and settings of many command lines, as text; `golden_plans` says how to rewrite it."""

import difflib
import subprocess
import sys
from pathlib import Path

from estimator_train.app.cli.commands.train import train
from tests.app.cli.golden_plans import LINES

ROOT = Path(__file__).parents[3]


def test_plans_and_settings_of_command_lines_are_those_in_the_file():
    command = [sys.executable, "-m", "tests.app.cli.golden_plans"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    golden = (ROOT / "tests" / "data" / "plans" / "plans.txt").read_text()
    changes = difflib.unified_diff(golden.splitlines(), done.stdout.splitlines(), "plans.txt", "now", lineterm="", n=9)
    assert not (diff := "\n".join(changes)), diff


def test_every_flag_of_train_is_in_a_command_line():
    flags = {flag for parameter in train.params for flag in parameter.opts} - {"--dry-run"}
    assert flags <= {word for line in LINES for word in line.split()}
