"""The notebooks of examples/ run in a kernel, and their cells print little."""

import re

import nbformat
import pytest

from estimator_train.app.datasets import synthetic_oct
from tests.examples import run_notebook

PATHS = {path.stem: path for path in run_notebook.NOTEBOOKS}
BAR_CLASS = "FloatProgressModel"
COLLECT = "import gc; gc.collect(); None"
# Replacements in the notebook whose bars and lines are looked at, and not what it learns.
SHORT = {
    'open_dataset("synthetic_oct")': 'open_dataset("synthetic_oct", "scans")',
    'dataset="synthetic_oct",': 'dataset="synthetic_oct", data_dir="scans",',
    "max_steps=160": "max_steps=6",
    "evaluate_every=80": "evaluate_every=4",
    "steps=20)": "steps=2)",
}


def read(name):
    return nbformat.read(PATHS[name], as_version=4)


def executed(name, directory, rules=()):
    """Returns the code cells of a notebook after its execution, and the values of its progress bars."""
    notebook = read(name)
    for there, here in dict(rules).items():
        (cell,) = (cell for cell in notebook.cells if there in cell.source)
        cell.source = cell.source.replace(there, here)
    collect_after_each_cell(notebook)
    run_notebook.run(notebook, directory)
    assert errors_of(notebook.cells) == []
    notebook.cells = [cell for cell in notebook.cells if cell.source != COLLECT]
    widgets = notebook.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {"state": {}})
    bars = [each["state"] for each in widgets["state"].values() if each["model_name"] == BAR_CLASS]
    return [cell for cell in notebook.cells if cell.cell_type == "code"], [(bar["value"], bar["max"]) for bar in bars]


def collect_after_each_cell(notebook):
    """What a cell leaves behind is collected in a later one, where it must show nothing."""
    collecting = [nbformat.v4.new_code_cell(COLLECT) for _ in notebook.cells]
    notebook.cells = [cell for pair in zip(notebook.cells, collecting, strict=True) for cell in pair]


def errors_of(cells):
    """Returns the errors below code cells, and the texts that hold one."""
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    texts = [output.text for output in outputs if output.output_type == "stream"]
    errors = [output.ename for output in outputs if output.output_type == "error"]
    return errors + [text for text in texts if re.search("Traceback|Exception ignored", text)]


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


def html_of(cells):
    outputs = [output for cell in cells for output in cell.outputs]
    return "".join(output.get("data", {}).get("text/html", "") for output in outputs)


def shown(cells):
    return "\n".join(line for cell in cells for line in lines_of(cell))


@pytest.mark.slow
def test_the_oct_notebook_has_bars_and_few_lines_below_its_cells(tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    synthetic_oct.draw_dataset(tmp_path / "scans", images_per_class={"train": 8, "test": 4})
    cells, bars = executed("oct", tmp_path, SHORT)
    assert sorted(bars) == [(2, 2), (6, 6)]
    assert [lines for lines in map(lines_of, cells) if len(lines) > 8] == []
    assert "Saving dict" not in shown(cells)  # the lines of the run have its metrics
    results = [output.data for cell in cells for output in cell.outputs if output.output_type == "execute_result"]
    tables = [data["text/html"] for data in results if "text/html" in data]
    # The dataset and the evaluation show one each, and the Estimator shows two.
    assert len([table for table in tables if "<table>" in table]) == 4
    (report,) = [table for table in tables if table.startswith("<iframe srcdoc=")]
    assert "accuracy over the global steps" in report


@pytest.mark.slow
def test_the_notebook_of_own_photographs_learns_to_tell_them_apart(tmp_path):
    cells, bars = executed("own_photographs", tmp_path)
    assert bars == [(80, 80), (100, 100)]
    accuracy = float(re.search(r"model\.ckpt-80: loss [\d.]+, accuracy ([\d.]+)", shown(cells))[1])
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


FAILING = [
    "import estimator_train as et, numpy as np, tensorflow as tf",
    """ones = np.ones((64, 1), "float32")
data = et.input_fns.arrays(ones, ones, batch_size=8, num_epochs=None)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
model.compile("sgd", "mse")
estimator = et.model_to_estimator(model, model_dir="run")""",
    "estimator.train(data, max_steps=10, hooks=[et.ProgressHook()]); None",
    """class Fail(et.SessionRunHook):
    def after_run(self, run_context, run_values):
        raise RuntimeError("mine")""",
    "estimator.train(data, max_steps=20, hooks=[et.ProgressHook(), Fail()])",
    "estimator.train(data, max_steps=-1)",
    "estimator.latest_checkpoint()",
]


@pytest.mark.slow
def test_bars_are_collected_in_silence_and_our_errors_end_at_the_call(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, FAILING)])
    collect_after_each_cell(notebook)
    run_notebook.run(notebook, tmp_path, allow_errors=True)
    assert errors_of(notebook.cells) == ["RuntimeError", "ValueError"]
    mine, ours = (cell.outputs[-1] for cell in notebook.cells if "Fail()" in cell.source or "=-1" in cell.source)
    assert "after_run" in "\n".join(mine.traceback)  # the user's own line
    assert len("\n".join(ours.traceback).splitlines()) <= 20
    assert "max_steps" in ours.evalue


@pytest.mark.parametrize("name", PATHS)
def test_saved_outputs_are_complete_and_name_no_path_of_a_machine(name):
    cells = [cell for cell in read(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert "100%" in shown(cells)
    everything = re.sub("base64,[^&]+", "", shown(cells) + html_of(cells))
    assert not re.search("/tmp|/home|/root|site-packages", everything)
