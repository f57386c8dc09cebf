"""A script runs in a directory of its own, and is stopped with all that it has started."""

import os
import sys
import time

import pytest

from estimator_train.compat.verify import NotVerifiedError, run, tensorflow_version
from estimator_train.compat.verify.runs import Run, why_it_fails


@pytest.fixture
def script(tmp_path):
    """Writes a script; returns its path."""

    def write(code):
        path = tmp_path / "script.py"
        path.write_text(code)
        return path

    return write


def test_a_script_finds_itself_in_its_directory_with_temporary_files_below(script, tmp_path):
    path = script("import os, sys, tempfile; print(os.getcwd(), tempfile.gettempdir()); sys.exit('the last line')")
    ran = run(sys.executable, [path], tmp_path / "old")
    assert ran.output.split() == [str(tmp_path / "old"), str(tmp_path / "old" / "tmp")]
    assert (ran.code, ran.last_line) == (1, "the last line") and 0 < ran.seconds < 60


def test_an_exit_code_of_the_scripts_own_is_not_taken_for_its_last_warning(tmp_path):
    ran = Run(tmp_path, "", "a warning\n", 3, 1.0)
    assert ran.last_line == "exit code 3, after the line: a warning"
    assert ran._replace(errors="").last_line == "exit code 3"


def test_the_keras_and_the_cluster_of_this_shell_are_not_for_scripts(script, tmp_path):
    variables = dict.fromkeys(["TF_CONFIG", "TF_USE_LEGACY_KERAS", "OTHER"], "1")
    path = script(f"import os; print([name for name in {list(variables)} if name in os.environ])")
    ran = run(sys.executable, [path], tmp_path / "old", environment=variables)
    assert ran.output == "['OTHER']\n"


def test_a_time_limit_kills_a_script_and_what_it_has_started(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(child.pid))\n"
        "time.sleep(60)"
    )
    with pytest.raises(NotVerifiedError, match="^the script has not ended after 3 seconds with "):
        run(sys.executable, ["-m", "script"], tmp_path / "old", time_limit=3)
    child = int((tmp_path / "old" / "child").read_text())
    deadline = time.monotonic() + 30
    while _runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_script_is_stopped_once_it_has_done_what_was_awaited(script, tmp_path):
    path = script("import time; open('done', 'w').close(); time.sleep(60)")
    ran = run(sys.executable, [path], tmp_path / "old", until=(tmp_path / "old" / "done").exists)
    assert ran.code == 0 and ran.seconds < 30
    ran = run(sys.executable, [script("import sys; sys.exit(3)")], tmp_path / "old", until=lambda: False)
    assert ran.code == 3


def test_a_module_is_found_in_the_current_directory(script, tmp_path, monkeypatch):
    script("import os, sys; print(os.getcwd(), sys.argv[1:])")
    monkeypatch.chdir(tmp_path)
    ran = run(sys.executable, ["-m", "script", "--steps", "3"], tmp_path / "runs" / "old")
    assert ran.output == f"{tmp_path / 'runs' / 'old'} ['--steps', '3']\n"


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("AttributeError: module 'tensorflow' has no attribute 'placeholder'", "tf.placeholder"),
        (
            "AttributeError: module 'tensorflow._api.v2.train' has no attribute 'AdamOptimizer'",
            "tf.train.AdamOptimizer",
        ),
        ("ModuleNotFoundError: No module named 'tensorflow.contrib'", "tf.contrib"),
        ("ImportError: cannot import name 'Session' from 'tensorflow' (/lib/tensorflow/__init__.py)", "tf.Session"),
    ],
)
def test_an_error_of_a_script_for_tensorflow_1_says_how_to_get_it(error, name, tmp_path):
    run = Run(tmp_path, "", f"Traceback\n{error}\n", 1, 1.0)
    advice = "run it with a Python 3.7 with: python -m pip install tensorflow==1.15.5 'protobuf<3.21'"
    assert why_it_fails(run, "2.15.1") == f"{error}; {name} is of TensorFlow 1: {advice}"
    assert why_it_fails(run, "1.15.5") == error
    assert why_it_fails(run._replace(errors="ValueError: no\n"), "2.15.1") == "ValueError: no"


def _runs(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"  # its new parent may not have waited for it


def test_a_python_without_tensorflow_is_refused(tmp_path, monkeypatch):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(NotVerifiedError, match=r"has no TensorFlow: ImportError: not here; give .*=2\.15\.1; .*=1\."):
        tensorflow_version(sys.executable)


@pytest.mark.parametrize("program", ["true", "false", "echo"])
def test_a_program_that_is_no_python_is_refused(program):
    with pytest.raises(NotVerifiedError, match=f"{program} has no TensorFlow: it is no Python; give "):
        tensorflow_version(program)
