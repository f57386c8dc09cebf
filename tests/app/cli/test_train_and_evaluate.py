"""Training that evaluates on the way, stops early and keeps the best checkpoint.

Model folders are absolute: TensorFlow keeps a writer of events for each name as long as the process lives.
"""

import json
import re
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from pretended_checkpoints import pretend

from estimator_train._engine.events import read_eval_metrics
from estimator_train._engine.exports.directories import exports_in
from estimator_train.app.running import training
from estimator_train.app.runs import predictions_file
from estimator_train.app.runs.monitor import METRICS
from estimator_train.app.runs.stored_run import StoredRun


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
    assert evaluated(output) == [2, 4, 6, 8, 10, 6]  # the last line is that of the best
    assert "trained 10 steps" in output
    *_, kept, last_line = output.splitlines()
    assert tf.train.latest_checkpoint(tmp_path / "run").endswith("model.ckpt-10")

    best = f"{tmp_path}/run/export/best_checkpoint/model.ckpt-6"
    with open(f"{best}.eval_result.json") as file:
        loss = json.load(file)["loss"]
    assert kept.startswith(f"the best checkpoint is kept as {best}, with the loss {loss:.4f}; evaluate, predict and ")
    assert last_line == f"evaluated {best}: loss {loss:.4f}"
    _, output, _ = command("evaluate", "--model-dir", tmp_path / "run", "--checkpoint", best)
    assert output.split()[-1] == f"{loss:.4f}"

    code, output, errors = command("--model-dir", tmp_path / "run", "--resume")
    assert (code, errors) == (0, "") and output.splitlines()[-1] == last_line
    assert f"{tmp_path}/run is already trained to step 10" in output
    code, output, _ = command("--model-dir", tmp_path / "run", "--resume", "--early-stopping", "3")
    assert code == 0 and "trained 2 steps" in output


@pytest.mark.slow
def test_a_run_killed_before_its_last_evaluation_stops_after_it(command, own_flags, tmp_path, monkeypatch):
    def die_at_step_8(hook, session, coord):
        if (tmp_path / "run" / "model.ckpt-8.index").exists():
            raise SystemExit(9)

    flags = ["--max-steps", "50", "--evaluate-every", "2", "--early-stopping", "1"]
    with monkeypatch.context() as patch:
        patch.setattr(training.StopEvaluation, "after_create_session", die_at_step_8)
        assert command(*own_flags, "--model-dir", tmp_path / "run", *flags)[0] == 9
    code, output, _ = command("--model-dir", tmp_path / "run", "--resume")
    assert code == 0 and "stopped at step 8: the loss did not fall in 1 evaluations" in output
    assert evaluated(output) == [8, 6]


@pytest.mark.slow
def test_evaluations_after_the_step_that_a_run_is_set_back_to_are_void(command, own_flags, tmp_path):
    flags = [*own_flags, "--model-dir", tmp_path / "run", "--max-steps", "50", "--evaluate-every", "2"]
    code, output, _ = command(*flags, "--early-stopping", "1", "--keep-best")
    assert code == 0 and "stopped at step 8: " in output
    (tmp_path / "run" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-4"\n')
    code, output, _ = command("--model-dir", tmp_path / "run", "--resume")
    assert code == 0 and "trained 4 steps" in output and "stopped at step 8: " in output


@pytest.mark.slow
def test_an_earlier_trainings_best_checkpoint_remains_the_best(command, own_flags, tmp_path):
    flags = [*own_flags, "--model-dir", tmp_path / "run", "--evaluate-every", "2", "--keep-best"]
    assert command(*flags, "--max-steps", "6")[0] == 0
    code, output, _ = command(*flags, "--max-steps", "10", "--resume")
    assert code == 0
    best = f"{tmp_path}/run/export/best_checkpoint/model.ckpt-6"
    assert output.splitlines()[-1].startswith(f"evaluated {best}: loss ")


@pytest.mark.slow
def test_another_metric_chooses_the_checkpoint_and_ends_the_training(command, scans, tmp_path):
    run = tmp_path / "run"
    flags = ["--dataset", "images", "--data-dir", scans, "--model", "small_cnn", "--image-size", "16", "--seed", "1"]
    flags += ["--model-dir", run, "--batch-size", "4", "--max-steps", "60", "--evaluate-every", "4"]
    code, output, _ = command(*flags, "--early-stopping", "2", "--keep-best", "--monitor", "macro_f1")
    assert code == 0
    assert "2 without a higher macro_f1 end it; the checkpoint of the best macro_f1 is kept" in output
    entries = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    *entries, final = entries
    assert (final["name"], final["step"]) == ("final", evaluated(output)[-1]) and "images" not in final
    assert {entry["images"] for entry in entries} == {"validation"}
    values = {entry["step"]: entry["metrics"]["macro_f1"] for entry in entries}
    assert values == {entry["step"]: pytest.approx(entry["classification"]["macro_f1"]) for entry in entries}
    best, last = max(values, key=values.get), max(values)
    assert last == best + 8 < 60  # the first of the highest value, and two evaluations more
    assert f"stopped at step {last}: the macro_f1 did not rise in 2 evaluations" in output
    assert f"model.ckpt-{best}, with the macro_f1 {values[best]:.4f} on the 2 validation images; evaluate" in output
    assert final["step"] == best

    code, output, _ = command("evaluate", "--model-dir", run, "--checkpoint", "best", "--json")
    (entry,) = json.loads(output)
    assert (entry["step"], entry["classification"]) == (best, final["classification"])
    code, output, errors = command("evaluate", "--model-dir", run, "--all", "--json")
    assert "ranking on the 2 validation images" in errors
    ranked = {entry["step"]: entry["metrics"]["macro_f1"] for entry in json.loads(output)}
    assert len(ranked) > 2 and values == pytest.approx({step: ranked[step] for step in values})


def test_a_metric_that_evaluations_do_not_have_is_refused_before_training(command, own_flags, tmp_path):
    flags = [*own_flags, "--model-dir", tmp_path / "run", "--max-steps", "4", "--evaluate-every", "2", "--keep-best"]
    code, output, errors = command(*flags, "--monitor", "mse")
    assert code == 2 and not evaluated(output)
    line = "--monitor mse: the evaluation has no such metric; it has loss"
    assert errors.splitlines()[-1] == f"estimator_train: {line}"


@pytest.fixture(scope="module")
def three_sides(tmp_path_factory):
    """A folder with train, val and test of three classes, told apart by their brightness."""
    folder, rng = tmp_path_factory.mktemp("sides"), np.random.default_rng(1)
    for side, number in (("train", 8), ("val", 3), ("test", 4)):
        for name, level in (("dark", 50), ("grey", 125), ("light", 200)):
            (folder / side / name).mkdir(parents=True)
            for index in range(number):
                pixels = np.clip(rng.normal(level, 25, (16, 16)), 0, 255).astype("uint8")
                Image.fromarray(pixels).save(folder / side / name / f"{side}{index}.png")
    return folder


CLIMBER = """
import tf_keras as keras

def build(image_size, num_classes):
    layers = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(num_classes, "softmax")]
    model = keras.Sequential([keras.Input((*image_size, 3)), *layers])
    model.compile(keras.optimizers.SGD(-0.5), "categorical_crossentropy", ["accuracy"])  # its loss rises at each step
    return model
"""


def training_on(folder, run):
    flags = ["--dataset", "images", "--data-dir", folder, "--model", "small_cnn", "--image-size", "16", "--seed", "1"]
    return [*flags, "--batch-size", "4", "--max-steps", "8", "--evaluate-every", "4", "--model-dir", run]


@pytest.mark.slow
def test_no_test_image_is_read_before_the_last_evaluation(command, three_sides, tmp_path):
    folder, run = tmp_path / "sides", tmp_path / "run"
    shutil.copytree(three_sides, folder)
    for path in folder.glob("test/*/*"):
        path.write_bytes(b"unreadable")
    code, output, errors = command(*training_on(folder, run), "--keep-best")
    assert "validation   9 images, val, for the evaluations during training\n" in output
    assert "on the validation images; the checkpoint of the best loss is kept; then once on the 12 images" in output
    assert code == 2 and f"{folder}/test/dark/test0.png cannot be decoded" in errors
    entries = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    assert [(entry["step"], entry["images"]) for entry in entries] == [(4, "validation"), (8, "validation")]
    assert all(entry["classification"]["examples"] == 9 for entry in entries)


@pytest.mark.slow
def test_the_kept_checkpoint_is_the_result_everywhere(command, three_sides, tmp_path):
    run = tmp_path / "run"
    (tmp_path / "climber.py").write_text(CLIMBER)
    flags = ["--keep-best", "--model", "climber.py:build", "--log", "csv"]
    code, output, _ = command(*training_on(three_sides, run), *flags)
    assert code == 0
    final = json.loads((run / "evaluations.jsonl").read_text().splitlines()[-1])
    assert (final["step"], final["classification"]["examples"]) == (4, 12)
    loss, accuracy = f"{final['metrics']['loss']:.4f}", f"{final['metrics']['accuracy']:.4f}"
    best = run / "export" / "best_checkpoint" / "model.ckpt-4"
    assert output.splitlines()[-1] == f"evaluated {best}: loss {loss}, accuracy {accuracy}"
    page = (run / "report" / "report.html").read_text()
    assert "run run, model.ckpt-4," in page and f"<dd>{loss}" in page
    assert "9 validation images chose the checkpoint; 12 others, which did not, judged it." in page

    # As a run that has the folder as its test images, and without a trace in the curves or for compare.
    before = read_eval_metrics(f"{run}/eval/*"), predictions_file.read(run)
    for more in (["--predictions", tmp_path / "all.csv"], ["--data-dir", three_sides / "test"]):
        code, output, errors = command("evaluate", "--model-dir", run, "--json", *more)
        (entry,) = json.loads(output)
        assert (entry["metrics"], entry["classification"]) == (final["metrics"], final["classification"])
        assert errors == f"using {best}, kept by --keep-best; --checkpoint latest uses the last one\n"
    (entry,) = json.loads(command("evaluate", "--model-dir", run, "--json", "--checkpoint", "latest")[1])
    assert entry["step"] == 8 and entry["metrics"]["loss"] > final["metrics"]["loss"]
    assert (read_eval_metrics(f"{run}/eval/*"), predictions_file.read(run)) == before
    assert StoredRun(run).result == json.loads(json.dumps(final))

    # A damaged one is one line, also if a wrong byte has changed no size.
    data = best.with_name(f"{best.name}.data-00000-of-00001")
    content = data.read_bytes()
    for damaged in (content[:-1], bytes([*content[:-1], content[-1] ^ 1])):
        data.write_bytes(damaged)
        for line in (
            ["evaluate"],
            ["report"],
            ["export", "--format", "weights", "--out", "new"],
            ["predict", three_sides / "test"],
        ):
            code, _, errors = command(line[0], "--model-dir", run, *line[1:])
            assert code == 2 and errors.splitlines()[-1].startswith(f"estimator_train: {best}, kept by --keep-best, is")
            assert errors.endswith("; --checkpoint latest uses the newest checkpoint\n")
    data.write_bytes(content[:-1])
    code, _, errors = command("--model-dir", run, "--resume", "--dry-run")
    assert code == 2 and errors.endswith(f"move {best.parent} elsewhere, and training keeps another\n")
    data.write_bytes(content)

    # Predictions, and those of the exported model.
    path = three_sides / "test" / "dark" / "test0.png"
    (predicted,) = json.loads(command("predict", "--model-dir", run, "--json", path)[1])
    row = (tmp_path / "all.csv").read_text().splitlines()[1].split(",")
    assert row[0] == str(path)
    probabilities = list(predicted["probabilities"].values())
    assert probabilities == pytest.approx([float(value) for value in row[3:]], abs=1e-6)
    assert command("export", "--model-dir", run, "--format", "saved_model", "--out", tmp_path / "saved")[0] == 0
    serve = tf.saved_model.load(exports_in(tmp_path / "saved")[-1]).signatures["serving_default"]
    (served,) = serve(tf.constant([path.read_bytes()])).values()
    assert served.numpy()[0] == pytest.approx(probabilities, abs=1e-6)

    # Every metric of the log is among those of the loggers and of TensorBoard.
    columns = (run / "metrics.csv").read_text().splitlines()[0].split(",")
    for name in METRICS["classification"]:
        assert {f"val_{name}", f"final_{name}"} <= {*columns} and name in final["metrics"]
        assert all(name in metrics for metrics in read_eval_metrics(f"{run}/eval*/*").values())


def test_a_share_is_held_out_where_there_are_two_sides(command, three_sides, tmp_path):
    folder, run = tmp_path / "sides", tmp_path / "run"
    shutil.copytree(three_sides, folder, ignore=shutil.ignore_patterns("val"))
    code, output, _ = command(*training_on(folder, run), "--early-stopping", "2", "--dry-run")
    assert code == 0 and "1 image, a share of 0.1 of the training images, for the evaluations" in output
    assert "dark 7 + 1 + 4" in output and "the checkpoint of the best loss is kept" in output
    code, output, _ = command(*training_on(folder, run), "--keep-best", "--validation", "0", "--dry-run")
    assert code == 0 and "the evaluation images choose, so the final numbers are too good" in output
    code, output, _ = command(*training_on(folder, run), "--validation", "0.25", "--dry-run")
    assert code == 0 and "7 images, a share of 0.25 of the training images, for the evaluations" in output


def test_the_command_line_that_started_a_run_resumes_it(command, scans, monkeypatch, tmp_path):
    run = tmp_path / "run"
    flags = [*training_on(scans, run), "--keep-best", "--resume"]
    monkeypatch.setattr(training, "_train", lambda *_: sys.exit(0))  # once run.json is written
    for arguments, folder in ((flags, "run"), ([*flags, "--dry-run"], "run, continuing from model.ckpt-8")):
        code, output, errors = command(*arguments)
        assert code == 0, errors
        assert "2 images, a share of 0.1 of the training images, for the evaluations" in output
        assert f"folder       {tmp_path}/{folder}\n" in output
        pretend(run, 8)
    code, _, errors = command("--resume", "--model-dir", run, "--validation", "0.5")
    assert code == 2 and "has validation 0.1, not 0.5" in errors


@pytest.mark.slow
def test_evaluations_and_checkpoints_stay_on_their_grid_after_a_resume(command, own_flags, tmp_path):
    flags = [*own_flags, "--model-dir", tmp_path / "run", "--evaluate-every", "4"]
    assert command(*flags, "--max-steps", "5")[0] == 0
    code, output, _ = command(*flags, "--max-steps", "14", "--resume")
    assert code == 0 and evaluated(output) == [5, 8, 12, 14]
    kept = {path.stem for path in (tmp_path / "run").glob("model.ckpt-*.index")}
    assert kept == {f"model.ckpt-{step}" for step in (4, 5, 8, 12, 14)}
