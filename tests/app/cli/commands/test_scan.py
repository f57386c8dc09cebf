"""estimator_train scan: what does not simply work, by file and line, a summary, and an exit code."""

import json

import pytest
from click.testing import CliRunner

from estimator_train.app.cli import commands
from estimator_train.compat import scan


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command on a folder with these files; returns its exit code and output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()

    def run(files, *flags):
        for name, content in files.items():
            (tmp_path / "code" / name).write_text(content)
        result = CliRunner().invoke(commands, ["scan", "code", *flags], standalone_mode=False)
        return result.return_value, result.output

    return run


WORKING = {"a.py": "import tensorflow as tf\ntf.estimator.Estimator", "b.py": "import tensorflow as tf\ntf.Session"}
ABSENT = {
    "c.py": "import tensorflow as tf\n" + "tf.estimator.KMeans\n" * 7,
    "d.py": "print 'x'",
    "e.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": "from tensorflow import no_such_name"}]}),
}


def test_a_folder_whose_names_all_work_has_exit_code_0(run):
    assert run(WORKING) == (
        0,
        "b.py\n  tf.Session (line 2): works under --tf1\n\n"
        "4 names in 2 files\n  works as it is: 3\n"
        "  works under --tf1: 1, run with estimator_train run --tf1 SCRIPT; --json names them all\n",
    )


def test_names_that_do_not_work_have_lines_and_advice(run):
    code, output = run(ABSENT)
    assert code == 1 and output == (
        "c.py\n  tf.estimator.KMeans (lines 2, 3, 4, 5, 6 and 2 more) absent: use scikit-learn's KMeans or "
        "MiniBatchKMeans\n\n"
        "d.py\n  not Python 3: line 1: Missing parentheses in call to 'print'. Did you mean print(...)?\n\n"
        "e.ipynb\n  tf.no_such_name (cell 1, line 1) absent\n\n"
        "3 names in 3 files\n  works as it is: 1\n  absent: 2\n  files not Python 3: 1\n"
    )


def test_a_single_file_is_counted_as_one(run):
    code, output = run({"a.py": "import tensorflow as tf"})
    assert code == 0 and output.startswith("1 names in 1 file\n")


def test_names_under_tf1_take_one_line_a_file(run):
    names = "\n".join(f"tf.{name}" for name in ("Session", "placeholder", "get_variable", "layers.dense"))
    assert (
        "  tf.Session (line 2) and 3 more: works under --tf1\n" in run({"a.py": f"import tensorflow as tf\n{names}"})[1]
    )


def test_json_has_every_name(run):
    code, output = run(WORKING | ABSENT, "--json")
    result = json.loads(output)
    assert code == 1 and result["names"] == {"works": 4, "tf1": 1, "absent": 2}
    assert result["unread_files"] == {"not_python_3": 1}
    first, *_, old, notebook = result["files"]
    assert first["names"][1] == {
        "name": "tf.estimator.Estimator", "verdict": "works", "advice": "", "places": [{"line": 2, "cell": None}],
    }  # fmt: skip
    assert old["problem"] == "not_python_3" and old["why"].startswith("line 1: ")
    assert notebook["names"][0]["places"] == [{"line": 1, "cell": 1}]


def test_every_verdict_has_a_phrase():
    verdicts = {scan.WORKS, scan.WITH_TF1, scan.CHANGE, scan.ABSENT, scan.NOT_PYTHON_3, scan.NOT_READ}
    from estimator_train.app.cli.commands import scan as command

    assert verdicts == command._PHRASES.keys()


def test_names_of_files_do_not_control_the_terminal(run):
    assert run({"a\x1b[31m.py": "print 'x'"})[1].startswith("a\\x1b[31m.py\n")
