"""A script runs in a directory of its own, and is stopped with all that it has started."""

import os
import sys
import time

import pytest

from estimator_train.compat.verify import NotVerifiedError, run, tensorflow_version


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


def test_the_keras_and_the_cluster_of_this_shell_are_not_for_scripts(script, tmp_path):
    variables = dict.fromkeys(["TF_CONFIG", "TF_USE_LEGACY_KERAS", "OTHER"], "1")
    path = script(f"import os; print([name for name in {list(variables)} if name in os.environ])")
    ran = run(sys.executable, [path], tmp_path / "old", environment=variables)
    assert ran.output == "['OTHER']\n"


def test_a_time_limit_kills_a_script_and_what_it_has_started(script, tmp_path):
    path = script(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(child.pid))\n"
        "time.sleep(60)"
    )
    with pytest.raises(NotVerifiedError, match=r"script\.py has not ended after 3 seconds with "):
        run(sys.executable, [path], tmp_path / "old", time_limit=3)
    child = int((tmp_path / "old" / "child").read_text())
    deadline = time.monotonic() + 30
    while _runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


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
    with pytest.raises(NotVerifiedError, match="has no TensorFlow: ImportError: not here; run: .* -m pip install"):
        tensorflow_version(sys.executable)
