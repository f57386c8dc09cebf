"""estimator_train verify: what was compared, what differs, the first one first, and an exit code."""

import math
import sys

import pytest
from click.testing import CliRunner

from estimator_train.app.cli import commands
from estimator_train.compat import verify
from estimator_train.compat.verify.noise import Noise
from estimator_train.compat.verify.results import Name
from estimator_train.compat.verify.runs import Run


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command where the two sides have these results; returns its exit code, its output, and the settings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").touch()

    def run(old, new, *flags, not_compared=(), errors="", noise=None, old_version="2.15.1"):
        given = {}

        def verified(script, arguments, **settings):
            given.update(settings, arguments=arguments)
            runs = Run(tmp_path, "", "", 0, 1.25), Run(tmp_path, "", errors, int(bool(errors)), 2.0)
            versions = old_version, "2.21.0"
            return verify.Verification(versions, runs, verify.compare(old, new), list(not_compared), noise)

        monkeypatch.setattr(verify, "verify", verified)
        arguments = ["verify", "script.py", "--python215", sys.executable, *flags]
        result = CliRunner().invoke(commands, arguments, standalone_mode=False)
        return result.return_value, result.output, given

    return run


WEIGHT, LOSS = Name("checkpoint", "model/model.ckpt", "weight", 20), Name("event", "model", "loss", 10)
PRINTED = Name("printed", "1", "accuracy #")


def test_equal_results_have_exit_code_0(run):
    results = {LOSS: 0.5, WEIGHT: [1.0, 2.0], WEIGHT._replace(step=30): [1.0, 2.5], PRINTED: [0.75]}
    code, output, _ = run(results, results | {LOSS: 0.500001}, not_compared=["a speed (2)", "a time (1)"])
    assert (
        code == 0
        and output
        == """\
TensorFlow 2.15.1: 1.2 s
TensorFlow 2.21.0: 2.0 s

compared    values    steps     largest difference
----------  --------  --------  --------------------
event       1         10 to 10  1.0e-06
checkpoint  4         20 to 30  0.0e+00
printed     1                   0.0e+00

not compared: a speed (2); a time (1)

equal up to 1.0e-06
"""
    )


def test_differences_are_listed_in_the_order_of_their_steps(run):
    code, output, _ = run({LOSS: 0.5, WEIGHT: [1.0, 2.0], PRINTED: [1]}, {LOSS: 0.5, WEIGHT: [1.0, 3.0], PRINTED: [2]})
    assert code == 1 and output.endswith("""
different, the first one first       step    2.15.1    2.21.0    difference
-----------------------------------  ------  --------  --------  ------------
checkpoint model/model.ckpt: weight  20      2         3         5.0e-01
printed 1: accuracy #                        1         2         1.0e+00

different
""")


def test_what_only_one_side_has_is_a_difference(run):
    code, output, _ = run({LOSS: 0.5, WEIGHT: 1.0}, {LOSS: 0.5, PRINTED: [1]})
    assert code == 1 and output.endswith("""
only on TensorFlow 2.15.1            step
-----------------------------------  ------
checkpoint model/model.ckpt: weight  20

only on TensorFlow 2.21.0    step
---------------------------  ------
printed 1: accuracy #

different
""")


def test_a_table_shows_its_first_rows_and_the_number_of_the_others(run):
    old = {LOSS._replace(step=step): 0.5 for step in range(12)}
    output = run(old, dict.fromkeys(old, math.nan))[1]
    assert output.count("event model: loss") == 10 and "\nand 2 more\n" in output


def test_an_error_on_the_new_side_is_shown(run):
    code_of_script = Name("exit", "code", "of the script")
    code, output, _ = run({code_of_script: 0}, {code_of_script: 1}, errors="Traceback\nValueError: no such layer\n")
    assert code == 1 and "\nthe script fails with TensorFlow 2.21.0: ValueError: no such layer\n" in output
    assert "\nexit code: of the script" in output


def test_a_tolerance_allows_differences(run):
    assert [run({LOSS: 0.5}, {LOSS: 0.6}, *flags)[0] for flags in ([], ["--tolerance", "0.2"])] == [1, 0]


def test_flags_and_the_arguments_of_the_script_arrive(run):
    flags = ["--tf1", "--same-initial-values", "--file", "a", "--file", "b", "--time-limit", "9", "--out", "runs"]
    given = run({}, {}, *flags, "--", "--steps", "3")[2]
    assert given == {
        "arguments": ("--steps", "3"), "python": sys.executable, "directory": "runs", "flags": ["--tf1"],
        "same_initial_values": True, "is_module": False, "tolerance": 1e-5, "files": ("a", "b"), "time_limit": 9.0,
    }  # fmt: skip


def test_a_module_is_given_by_its_name(run):
    code, _, given = run({}, {}, "-m", "--tolerance", "0.1")
    assert code == 0 and given["is_module"] and given["tolerance"] == 0.1


@pytest.mark.parametrize(
    ("again", "in_initial_values", "flags", "last_line"),
    [
        (0.5, False, [], "different; a second run with TensorFlow 2.15.1 differs from the first by 0.0e+00\n"),
        (0.7, False, [], "and chance can hide a difference: give a seed to shuffle(), to dropout, and to "),
        (0.7, True, [], "and chance can hide a difference: give --same-initial-values, and a seed to shuffle(), "),
        (0.7, True, ["--same-initial-values"], "chance can hide a difference: give a seed to shuffle(), to dropout"),
    ],
)
def test_the_last_line_names_chance_and_what_to_seed(run, again, in_initial_values, flags, last_line):
    noise = Noise(verify.compare({LOSS: 0.5}, {LOSS: again}), in_initial_values)
    code, output, _ = run({LOSS: 0.5}, {LOSS: 0.6}, *flags, noise=noise)
    assert code == 1 and last_line in output.splitlines(keepends=True)[-1]
    assert f"0.6       1.0e-01       {abs(again - 0.5):.1e}" in output and "2.15.1 twice" in output


@pytest.mark.parametrize(
    ("old_version", "step", "drawn_anew", "is_named"),
    [("1.15.5", 0, False, True), ("1.15.5", 0, True, False), ("1.15.5", 20, False, False), ("2.15.1", 0, False, False)],
)
def test_seeds_from_which_tensorflow_1_draws_otherwise_are_named(run, old_version, step, drawn_anew, is_named):
    weight = WEIGHT._replace(step=step)
    noise = Noise(verify.compare({weight: 1.0}, {weight: 1.0}), drawn_anew)
    output = run({weight: 1.0}, {weight: 2.0}, noise=noise, old_version=old_version)[1]
    hint = "; TensorFlow 1.15.5 draws other numbers from a seed: if the script seeds its graphs, leave that out, and"
    assert (hint in output.splitlines()[-1]) == is_named


def test_names_do_not_control_the_terminal(run):
    name = PRINTED._replace(name="\x1b[31m" + "a" * 100)
    output = run({name: [1]}, {})[1]
    assert "\x1b" not in output and "printed 1: \\x1b[31maaa" in output and "a" * 81 not in output
