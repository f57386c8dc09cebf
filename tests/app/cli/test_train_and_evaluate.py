"""Training that evaluates on the way, stops early and keeps the best checkpoint.

Model folders are absolute: TensorFlow keeps a writer of events for each name as long as the process lives.
"""

import json
import re

import pytest
import tensorflow as tf


def evaluated(output):
    """Steps of the evaluations that were said."""
    return [int(step) for step in re.findall(r"^evaluated \S+model\.ckpt-(\d+): loss", output, re.MULTILINE)]


@pytest.mark.smoke
def test_it_evaluates_every_n_steps_and_at_the_end(command, own_flags, tmp_path):
    code, output, _ = command(*own_flags, "--model-dir", tmp_path / "run", "--max-steps", "7", "--evaluate-every", "3")
    assert code == 0
    assert evaluated(output) == [3, 6, 7]
    assert "trained 7 steps" in output


@pytest.mark.slow
def test_it_stops_at_one_evaluation_too_many_and_keeps_the_best(command, own_flags, tmp_path):
    flags = [*own_flags, "--model-dir", tmp_path / "run", "--max-steps", "50", "--evaluate-every", "2"]
    code, output, _ = command(*flags, "--early-stopping", "2", "--keep-best")
    assert code == 0
    assert evaluated(output) == [2, 4, 6, 8, 10, 10]  # the last line says once more where training ended
    assert "trained 10 steps" in output
    last_line = output.splitlines()[-1]
    assert tf.train.latest_checkpoint(tmp_path / "run").endswith("model.ckpt-10")

    best = f"{tmp_path}/run/export/best_checkpoint/model.ckpt-6"
    with open(f"{best}.eval_result.json") as file:
        loss = json.load(file)["loss"]
    assert last_line == f"the best checkpoint is kept as {best}: loss {loss:.4f}"
    _, output, _ = command("evaluate", "--model-dir", tmp_path / "run", "--checkpoint", best)
    assert output.split()[-1] == f"{loss:.4f}"


@pytest.mark.slow
def test_an_earlier_trainings_best_checkpoint_remains_the_best(command, own_flags, tmp_path):
    flags = [*own_flags, "--model-dir", tmp_path / "run", "--evaluate-every", "2", "--keep-best"]
    assert command(*flags, "--max-steps", "6")[0] == 0
    code, output, _ = command(*flags, "--max-steps", "10", "--resume")
    assert code == 0
    best = f"{tmp_path}/run/export/best_checkpoint/model.ckpt-6"
    assert output.splitlines()[-1].startswith(f"the best checkpoint is kept as {best}: loss ")


@pytest.mark.slow
def test_a_data_set_that_is_stopped_early_says_so(command, scans, tmp_path):
    flags = ["--dataset", "images", "--data-dir", scans, "--model", "small_cnn", "--image-size", "16"]
    flags += ["--model-dir", tmp_path / "run", "--batch-size", "4", "--seed", "1", "--max-steps", "200"]
    code, output, _ = command(*flags, "--evaluate-every", "5", "--early-stopping", "1")
    assert code == 0
    last = evaluated(output)[-1]
    assert last < 200 and last % 5 == 0
    assert f"stopped at step {last}: the loss did not fall in 1 evaluations" in output


@pytest.mark.slow
def test_another_metric_chooses_the_checkpoint_and_ends_the_training(command, scans, tmp_path):
    run = tmp_path / "run"
    flags = ["--dataset", "images", "--data-dir", scans, "--model", "small_cnn", "--image-size", "16", "--seed", "1"]
    flags += ["--model-dir", run, "--batch-size", "4", "--max-steps", "60", "--evaluate-every", "4"]
    code, output, _ = command(*flags, "--early-stopping", "2", "--keep-best", "--monitor", "macro_f1")
    assert code == 0
    assert "2 without a higher macro_f1 end it; the checkpoint of the best macro_f1 is kept" in output
    entries = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    values = {entry["step"]: entry["metrics"]["macro_f1"] for entry in entries}
    assert values == {entry["step"]: pytest.approx(entry["classification"]["macro_f1"]) for entry in entries}
    best, last = max(values, key=values.get), max(values)
    assert last == best + 8 < 60  # the first of the highest value, and two evaluations more
    assert f"stopped at step {last}: the macro_f1 did not rise in 2 evaluations" in output
    assert output.splitlines()[-1].endswith(f"best_checkpoint/model.ckpt-{best}: macro_f1 {values[best]:.4f}")

    code, output, _ = command("evaluate", "--model-dir", run, "--checkpoint", "best", "--json")
    (entry,) = json.loads(output)
    assert (entry["step"], entry["classification"]["macro_f1"]) == (best, pytest.approx(values[best]))


def test_a_metric_that_evaluations_do_not_have_is_refused_before_training(command, own_flags, tmp_path):
    flags = [*own_flags, "--model-dir", tmp_path / "run", "--max-steps", "4", "--evaluate-every", "2", "--keep-best"]
    code, output, errors = command(*flags, "--monitor", "mse")
    assert code == 2 and not evaluated(output)
    line = "--monitor mse: the evaluation has no such metric; it has loss, and, for a dataset, macro_precision"
    assert errors.splitlines()[-1].startswith(f"estimator_train: {line}")
