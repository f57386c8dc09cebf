"""Scripts see what they see under python, except for the names of their temporary directories."""

import json
import subprocess
import sys

import pytest

from estimator_train.compat.verify import side


@pytest.fixture
def run(tmp_path):
    """Runs a program in a folder by side.py; returns what it prints, as JSON."""

    def run(*program):
        done = subprocess.run([sys.executable, side.__file__, *program], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


PRINT = "import json, os, sys; print(json.dumps([__name__, sys.argv, sys.path[0], os.getcwd()]))"


def test_a_script_is_run_as_python_does(run, tmp_path):
    (tmp_path / "code").mkdir()
    script = tmp_path / "code" / "script.py"
    script.write_text(PRINT)
    expected = ["__main__", [str(script), "--steps", "3"], str(tmp_path / "code"), str(tmp_path)]
    assert run(str(script), "--steps", "3") == expected


def test_a_module_is_run_as_python_does(run, tmp_path):
    (tmp_path / "program.py").write_text(PRINT)
    name, (path, *arguments), *rest = run("-m", "program", "--steps", "3")
    assert (name, path, arguments) == ("__main__", str(tmp_path / "program.py"), ["--steps", "3"])
    assert rest == [str(tmp_path)] * 2


def test_temporary_directories_are_numbered(run, tmp_path):
    (tmp_path / "kept").mkdir()
    script = tmp_path / "script.py"
    script.write_text(
        "import json, os, tempfile\n"
        "paths = [tempfile.mkdtemp(dir='kept'), tempfile.mkdtemp('a', 'run', 'kept'), tempfile.mkdtemp(dir='kept')]\n"
        "with tempfile.TemporaryDirectory(dir='kept') as path: paths.append(path)\n"
        "print(json.dumps([paths, sorted(os.listdir('kept'))]))"
    )
    names = ["tmp0", "run0a", "tmp1", "tmp2"]
    assert run(str(script)) == [[str(tmp_path / "kept" / name) for name in names], ["run0a", "tmp0", "tmp1"]]
