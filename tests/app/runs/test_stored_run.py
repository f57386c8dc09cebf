"""Complete parts of a run's files are read, and one line says what is left out."""

import json

import keras as keras3
import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train.app.runs import evaluations
from estimator_train.app.runs.stored_run import StoredRun

ENTRY = {"checkpoint": "model.ckpt-2", "step": 2, "time": "2024-01-01T00:00:00+00:00", "metrics": {"loss": 0.5}}
TIMING = {"steps_per_second": 2.0, "examples_per_second": None, "input_wait_share": None}


def stored(folder):
    """Returns the run of a folder that has no more than a model's name."""
    (folder / "run.json").write_text('{"settings": {"model": "small_cnn"}}')
    return StoredRun(folder)


@pytest.mark.parametrize(
    "bad",
    [
        b'{"checkpoint": "model.ckpt-4", "st',
        b"\xff\xfe",
        b"[1]",
        b'{"step": "two", "checkpoint": "a", "metrics": {}}',
        json.dumps(ENTRY | {"classification": {"accuracy": 1.0}}).encode(),
        b"[" * 100_000,
    ],
    ids=lambda bad: repr(bad[:20]),
)
@pytest.mark.parametrize("is_last", [True, False])
def test_a_line_that_is_no_evaluation_is_left_out_and_reported_once(bad, is_last, tmp_path, warnings):
    line = json.dumps(ENTRY).encode() + b"\n"
    (tmp_path / "evaluations.jsonl").write_bytes(line + bad + (b"" if is_last else b"\n" + line))
    assert evaluations.read(tmp_path) == [ENTRY] * (1 if is_last else 2)
    (warning,) = warnings
    assert "evaluations.jsonl" in warning and "['2']" in warning


def test_a_run_without_evaluations_and_timing_has_none(tmp_path, warnings):
    assert evaluations.read(tmp_path) == [] and stored(tmp_path).timing is None
    assert not warnings


@pytest.mark.parametrize("text", ["", '{"steps_per', "[1]", json.dumps(TIMING | {"input_wait_share": "much"}), "{}"])
def test_a_timing_that_is_none_is_left_out_and_reported_once(text, tmp_path, warnings):
    (tmp_path / "timing.json").write_text(json.dumps(TIMING))
    assert stored(tmp_path).timing == TIMING | {"sessions": []}
    (tmp_path / "timing.json").write_text(text)
    run = stored(tmp_path)
    assert run.timing is None and run.timing is None
    (warning,) = warnings
    assert "timing.json is skipped" in warning


def test_sessions_that_do_not_tell_where_their_time_went_are_left_out(tmp_path, warnings):
    numbers = ("first_step", "last_step", "seconds", "warmup_seconds", "whole_seconds", "checkpoint_seconds")
    numbers += ("evaluation_seconds", "other_seconds")
    session = {"started": "then", "input_wait_seconds": None} | dict.fromkeys(numbers, 1)
    (tmp_path / "timing.json").write_text(json.dumps(TIMING | {"sessions": [TIMING, session, 5]}))
    assert stored(tmp_path).timing["sessions"] == [session | {"features_seconds": 0.0}]
    assert not warnings


@pytest.mark.parametrize("text", ["", '{"settings"', "[1]", '{"settings": {}}', "\udcff"])
def test_a_run_json_that_is_none_is_refused_by_name(text, tmp_path):
    (tmp_path / "run.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"run\.json .*must be the run.json of a run"):
        StoredRun(tmp_path)


def test_parts_of_a_run_json_that_are_of_another_form_are_left_out(tmp_path):
    run = {"settings": {"model": "small_cnn"}, "started": "then"}
    others = {
        "command": 5,
        "versions": "2.16",
        "data": {"train": 3, "eval": 1, "classes": {"train": {}}},
    }
    (tmp_path / "run.json").write_text(json.dumps(run | others))
    assert StoredRun(tmp_path).about == run | {"training": {}}


@pytest.mark.parametrize(("stored_ends", "ends"), [([2, 5], [2, 5]), (None, []), (["2", 5], []), ([0, 5], [])])
def test_phases_end_where_run_json_says(stored_ends, ends, tmp_path):
    about = {"settings": {"model": "vgg16", "phases": "freeze=all epochs=1; " * 3}, "last_step": 12}
    (tmp_path / "run.json").write_text(json.dumps(about | {"phase_ends": stored_ends}))
    assert StoredRun(tmp_path).phase_ends == ends


@pytest.mark.parametrize("is_keras3", [False, True])
def test_the_weights_of_a_checkpoint_are_counted_without_its_optimizer(is_keras3, classifier, data, batches, tmp_path):
    model = classifier("adam")
    if is_keras3:
        model = keras3.Sequential([keras3.Input((4,)), keras3.layers.Dropout(0.1), keras3.layers.Dense(3, "softmax")])
        model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    et.model_to_estimator(model, model_dir=tmp_path / "run").train(batches(data, 16), steps=1)
    assert StoredRun(tmp_path / "run").weights == model.count_params()
    assert stored(tmp_path).weights is None


def test_the_best_step_is_that_of_the_kept_checkpoint(tmp_path):
    assert stored(tmp_path).best_step is None
    kept = tmp_path / "export" / "best_checkpoint"
    kept.mkdir(parents=True)
    for name in ("model.ckpt-30.index", "model.ckpt-30.data-00000-of-00001", "checkpoint"):
        (kept / name).touch()
    assert stored(tmp_path).best_step == 30


def test_a_best_checkpoint_that_is_older_than_the_others_is_one_of_the_run(tmp_path):
    checkpoint, best = tf.train.Checkpoint(x=tf.Variable(1.0)), tmp_path / "export" / "best_checkpoint"
    newest, older = checkpoint.write(str(tmp_path / "model.ckpt-9")), checkpoint.write(str(best / "model.ckpt-2"))
    assert stored(tmp_path).damages == {older: None, newest: None}
    checkpoint.write(str(tmp_path / "model.ckpt-2"))
    assert list(stored(tmp_path).damages) == [str(tmp_path / "model.ckpt-2"), newest]
