"""The notebooks of examples/ run in a kernel, and their cells print little."""

import re

import nbformat
import pytest

from estimator_train.app.datasets import synthetic_oct
from tests.examples import run_notebook

PATHS = {path.stem: path for path in run_notebook.NOTEBOOKS}
BAR_CLASS = "FloatProgressModel"
# Replacements in the notebook whose bars and lines are looked at, and not what it learns.
SHORT = {
    'open_dataset("synthetic_oct")': 'open_dataset("synthetic_oct", "scans")',
    "steps=20)": "steps=2)",
    "max_steps=160": "max_steps=6",
    "every_steps=140": "every_steps=4",
}


def read(name):
    return nbformat.read(PATHS[name], as_version=4)


def executed(name, directory, rules=()):
    """Returns the code cells of a notebook after its execution, and the values of its progress bars."""
    notebook = read(name)
    for there, here in dict(rules).items():
        (cell,) = (cell for cell in notebook.cells if there in cell.source)
        cell.source = cell.source.replace(there, here)
    run_notebook.run(notebook, directory)
    widgets = notebook.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {"state": {}})
    bars = [each["state"] for each in widgets["state"].values() if each["model_name"] == BAR_CLASS]
    return [cell for cell in notebook.cells if cell.cell_type == "code"], [(bar["value"], bar["max"]) for bar in bars]


def lines_of(cell):
    """Returns the lines of text below a cell; an image or a table takes the place of the text of its object."""
    lines = []
    for output in cell.outputs:
        data = output.get("data", {})
        if output.output_type == "stream":
            lines += output.text.splitlines()
        elif data.keys() == {"text/plain"}:
            lines += data["text/plain"].splitlines()
    return lines


def shown(cells):
    return "\n".join(line for cell in cells for line in lines_of(cell))


@pytest.mark.slow
def test_the_oct_notebook_has_bars_and_at_most_five_lines_a_cell(tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    synthetic_oct.draw_dataset(tmp_path / "scans", images_per_class={"train": 8, "test": 4})
    cells, bars = executed("oct", tmp_path, SHORT)
    assert sorted(bars) == [(2, 2), (6, 6)]
    assert [lines for lines in map(lines_of, cells) if len(lines) > 5] == []
    results = [output.data for cell in cells for output in cell.outputs if output.output_type == "execute_result"]
    tables = [data["text/html"] for data in results if "text/html" in data]
    assert len([table for table in tables if "<table>" in table]) == 4  # the dataset, the Estimator twice, and the run
    (report,) = [table for table in tables if table.startswith("<iframe srcdoc=")]
    assert "accuracy over the global steps" in report


@pytest.mark.slow
def test_the_notebook_of_own_photographs_learns_to_tell_them_apart(tmp_path):
    cells, bars = executed("own_photographs", tmp_path)
    assert bars == [(80, 80)]
    accuracy = float(shown(cells).split("accuracy = ")[1].split(",")[0])
    assert accuracy > 0.8
    assert (tmp_path / "photographs" / "cats" / "000.jpg").exists()


@pytest.mark.slow
def test_the_notebook_of_an_old_model_fn_trains_it(tmp_path):
    cells, bars = executed("old_model_fn", tmp_path)
    assert bars == [(300, 300)]
    (training,) = (cell for cell in cells if "ProgressHook" in cell.source)
    texts = [output.data["text/plain"] for output in training.outputs if "data" in output]
    assert any("300/300" in text for text in texts)  # shown where the saved notebook's widgets are not drawn
    assert len(lines_of(training)) + len(texts) <= 5
    right = int(lines_of(cells[-1])[-1].strip("'").split()[0])
    assert right > 190


@pytest.mark.parametrize("name", PATHS)
def test_saved_outputs_are_complete_and_name_no_path_of_a_machine(name):
    cells = [cell for cell in read(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert "100%" in shown(cells)
    assert not re.search("/tmp|/home|/root|site-packages", shown(cells))
