"""README is one screen, and its claims are those of the pages that it links to."""

import re
import runpy
from pathlib import Path

import pytest
import setuptools
import tensorflow as tf

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SCREEN, _, BELOW = README.partition("\n## Documentation\n")


def rows_of(page, part=slice(None)):
    """Yields the cells of each row of a page's tables."""
    for line in (ROOT / "docs" / page).read_text()[part].splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def measured():
    """Returns the numbers of packages and scripts, those of their values, and the largest difference of these."""
    clients = [row for row in rows_of("clients.md") if len(row) == 8 and "==" in row[0]]  # the others are our own
    scripts = [row for row in rows_of("compare_tf215.md") if row[0].endswith(".py")]
    packages = {row[0] for row in clients}
    values = sum(int(row[6]) for row in clients), sum(int(row[1]) for row in scripts)
    difference = max(float(cell) for cell in [*(row[7] for row in clients), *(row[2] for row in scripts)])
    return len(packages), len(scripts), values, difference


def test_readme_fits_a_screen():
    assert BELOW
    assert len(SCREEN.rstrip("\n").splitlines()) <= 70


def test_readme_claims_what_the_pages_have_measured():
    packages, scripts, values, difference = measured()
    claims = [
        f"{packages} packages and {scripts} scripts of ours run unmodified",
        f"with {values[0]:,} and {values[1]:,} values equal to TensorFlow 2.15's to {difference:.1e}",
    ]
    text = " ".join(re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", SCREEN).split())
    assert [claim for claim in claims if claim not in text] == []


def test_readme_shows_the_error_of_today(monkeypatch):
    line, error = re.search(r"```text\n>>> (.+)\nAttributeError: (.+)\n```", SCREEN).groups()
    monkeypatch.delattr(tf, "estimator", raising=False)  # of install, in an earlier test
    with pytest.raises(AttributeError) as raised:
        eval(line, {"tf": tf})
    assert str(raised.value) == error


@pytest.mark.parametrize("devices", ["", pytest.param(["CPU:0", "CPU:1"], marks=pytest.mark.slow)], ids=["one", "two"])
def test_the_program_learns_the_sums(devices, tmp_path, monkeypatch):
    (program,) = re.findall(r"```python\n([^`]*RunConfig[^`]*)```", SCREEN)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(program.replace("MirroredStrategy()", f"MirroredStrategy({devices})"), names)
    metrics = names["estimator"].evaluate(names["input_fn"])
    assert metrics["loss"] < 0.05 and metrics["global_step"] == 200


def test_a_package_index_gets_no_link_to_a_file(monkeypatch):
    described = {}
    monkeypatch.setattr(setuptools, "setup", described.update)
    runpy.run_path(str(ROOT / "setup.py"))
    text = described["long_description"]
    assert "## Documentation" in text
    assert re.findall(r"!\[|<img|\]\((?!https://)", text) == []
