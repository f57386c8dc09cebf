"""estimator_train compare: two runs on the same classes as a table and a page; the checkpoint that is evaluated."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest

from estimator_train.app.runs import predictions_file, run_file


@pytest.fixture(scope="module")
def two_runs(trained, tmp_path_factory):
    """Two copies of a run that is not evaluated yet, the second with a different seed."""
    folder = tmp_path_factory.mktemp("compared")
    evaluated = shutil.ignore_patterns("eval*", "predictions.csv", "report")  # by other tests
    for name in ("first", "second"):
        shutil.copytree(trained.model_dir, folder / name, ignore=evaluated)
    run_json = folder / "second" / "run.json"
    run = json.loads(run_json.read_text())
    run["settings"]["seed"] = 2
    run_json.write_text(json.dumps(run))
    return folder


@pytest.mark.slow
def test_two_runs_are_compared_by_their_last_evaluations(command, two_runs, tmp_path):
    first, second = two_runs / "first", two_runs / "second"
    code, output, errors = command("compare", first, second)
    assert code == 0 and "has no predictions.csv" not in errors  # nor an evaluation to have them of
    assert "seed" in output and "accuracy" not in output

    best = second / "export" / "best_checkpoint"
    best.mkdir(parents=True)
    for file in second.glob("model.ckpt-0.*"):
        shutil.copy(file, best)
    (best / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-0"\n')
    assert command("evaluate", "--model-dir", first)[0] == 0
    assert command("report", "--model-dir", second, "--checkpoint", "best")[0] == 0
    entries = [json.loads((folder / "evaluations.jsonl").read_text()) for folder in (first, second)]
    assert [entry["checkpoint"] for entry in entries] == ["model.ckpt-12", "model.ckpt-0"]

    code, output, errors = command("compare", first, second, first)
    assert (code, errors) == (0, "")
    lines = [line.split() for line in output.splitlines()]
    assert ["checkpoint", "model.ckpt-12", "model.ckpt-0"] in lines and ["seed", "1", "2"] in lines
    accuracies = [f"{entry['classification']['accuracy']:.4f}" for entry in entries]
    assert any(line[:3] == ["accuracy", *accuracies] for line in lines)
    right = [entry["classification"]["accuracy"] * 4 for entry in entries]
    line = next(line for line in output.splitlines() if line.startswith(f"{second}: of 4 shared examples, "))
    better, worse = map(
        int, re.search(r"(\d+) changed from wrong to right and (\d+) from right to wrong", line).groups()
    )
    assert better - worse == right[1] - right[0]
    assert f": accuracy {100 * (better - worse) / 4:+.1f} points, McNemar's p " in output.splitlines()[0]
    assert any(line[0] == "weights" and line[1] == line[2] for line in lines if line)
    assert output.splitlines()[-1] == "the comparison is comparison.html"
    page = (tmp_path / "comparison.html").read_text()
    assert "Examples with different outcomes" in page
    assert page.count("<figure>") == better + worse

    (first / "predictions.csv").unlink()
    _, output, errors = command("compare", second, first, "--out", tmp_path / "other.html")
    assert errors.startswith(
        f"estimator_train: {first} has no predictions.csv, so its images are not compared; to write it, run: "
    )
    assert "of 4 examples" not in output and (tmp_path / "other.html").exists()


def test_examples_of_different_data_are_not_compared_by_number(command, settings):
    for name in ("first", "second"):
        of_file = dataclasses.replace(settings, dataset="npz", data_dir=f"/{name}.npz")
        run_file.save(name, dataclasses.asdict(of_file))
        predictions_file.write(name, None, settings.class_names, np.array([0, 1]), np.eye(2))
    code, output, errors = command("compare", "first", "second")
    assert code == 0 and "shared examples" not in output
    assert errors.startswith("estimator_train: second and first number the examples of different data")
