"""estimator_train datasets: the list, and what cannot be downloaded."""

import subprocess
import sys

import pytest

from estimator_train.app.datasets import synthetic_oct

PROGRAM = """
import sys
from estimator_train.app.cli import main
try:
    main()
finally:
    assert "tensorflow" not in sys.modules
"""


def test_the_list_says_what_is_here_without_tensorflow(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "estimator_train" / "synthetic_oct" / "seed-0").mkdir(parents=True)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, "datasets"], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    head, _, *rows = result.stdout.splitlines()
    assert head.split() == ["name", "task", "size", "from", "here"]
    here = {row.split()[0]: row.split()[-1] for row in rows}
    assert (here["synthetic_oct"], here["oct2017"], here["fashion_mnist"]) == ("yes", "no", "no")
    assert {"images", "cats_vs_dogs", "npz", "tfrecord", "tfds:NAME"} < here.keys()
    assert "paultimothymooney/kermany2018" in result.stdout


def test_a_download_says_where_the_data_is_and_what_it_has(command, monkeypatch, tmp_path):
    monkeypatch.setattr(synthetic_oct, "IMAGES_PER_CLASS", {"train": 2, "test": 1})
    code, output, _ = command("datasets", "download", "synthetic_oct", "--data-dir", tmp_path / "drawn")
    assert code == 0
    assert output.startswith(f"synthetic_oct is in {tmp_path / 'drawn'}\n")
    assert output.splitlines()[-1].split() == ["NORMAL", "2", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["octs"], "there is no dataset 'octs'; pass one of synthetic_oct"),
        (["npz"], "there is nothing to download for npz"),
        (["fashion_mnist", "--data-dir", "x"], "leave out --data-dir"),
        (["tfds:no_such_set"], "no_such_set"),
        ([], "Missing argument 'NAME'"),
    ],
)
def test_what_cannot_be_downloaded_is_one_line(command, arguments, message):
    code, output, errors = command("datasets", "download", *arguments)
    assert (code, output) == (2, "")
    assert message in errors and errors.count("\n") == 1
