"""Runs the notebooks of examples/ in a kernel; `python -m tests.examples.run_notebook` saves their outputs in them."""

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.ipynb"))


def run(notebook, directory, **options):
    """Executes a notebook in a directory, where it leaves its files; its cells get their outputs."""
    resources = {"metadata": {"path": str(directory)}}
    options |= {"coalesce_streams": True, "record_timing": False}
    NotebookClient(notebook, timeout=300, resources=resources, **options).execute()
    return notebook


def _save_outputs():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # leaves out what TensorFlow says about a machine without GPUs
    # GitHub does not show widgets, so that the progress bars are to be texts.
    as_text = ["--IPKernelApp.exec_lines=import sys; sys.modules['ipywidgets'] = None"]
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as directory:
            notebook = run(nbformat.read(path, as_version=4), directory, extra_arguments=as_text)
        nbformat.write(notebook, path)


if __name__ == "__main__":
    _save_outputs()
