"""Metrics of evaluations are read back from all event files of a pattern, as far as these can be read."""

import os
import shutil

import tensorflow as tf

import estimator_train as et
from estimator_train._engine.events import event_writer, read_eval_metrics

v1 = tf.compat.v1


def write(folder, suffix, metrics_by_step):
    """Path of a new event file with these metrics."""
    with tf.Graph().as_default(), v1.summary.FileWriter(folder, filename_suffix=suffix) as writer:
        for step, metrics in metrics_by_step.items():
            values = [v1.Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
            path = v1.Summary.Value(tag="checkpoint_path", tensor=tf.make_tensor_proto("model.ckpt-1"))
            writer.add_summary(v1.Summary(value=[*values, path]), step)
    return tf.io.gfile.glob(f"{folder}/*{suffix}")[0]


def test_metrics_of_all_files_come_in_the_order_of_their_steps(tmp_path):
    write(str(tmp_path), ".a", {20: {"loss": 2.0, "auc": 0.5}, 10: {"loss": 1.0}})
    write(str(tmp_path), ".b", {5: {"loss": 3.0}})
    metrics = read_eval_metrics(str(tmp_path / "*.tfevents.*"))
    assert list(metrics.items()) == [(5, {"loss": 3}), (10, {"loss": 1}), (20, {"loss": 2, "auc": 0.5})]


def test_there_are_no_metrics_without_files(tmp_path):
    assert read_eval_metrics(str(tmp_path / "eval" / "*.tfevents.*")) == {}


def test_a_torn_file_counts_as_far_as_it_goes(tmp_path, log_lines):
    torn = write(str(tmp_path), ".a", {1: {"loss": 1.0}, 2: {"loss": 2.0}})
    write(str(tmp_path), ".b", {3: {"loss": 3.0}})
    os.truncate(torn, os.path.getsize(torn) - 3)
    assert read_eval_metrics(str(tmp_path / "*.tfevents.*")) == {1: {"loss": 1}, 3: {"loss": 3}}
    assert any(torn in line and "damaged" in line for line in log_lines)


def test_a_relative_and_an_absolute_path_have_one_writer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        writer = event_writer("run")
        assert writer is event_writer(tmp_path / "run")
        assert writer is v1.summary.FileWriterCache.get("run")


def test_a_writer_that_an_error_has_closed_is_opened_again(tmp_path):
    with tf.Graph().as_default():
        for step in (1, 2):
            writer = event_writer(tmp_path)
            writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="loss", simple_value=step)]), step)
            writer.close()
    # Files made within a second have one name.
    assert read_eval_metrics(f"{tmp_path}/*")[2] == {"loss": 2}


def test_events_are_written_again_after_their_directory_was_deleted(tmp_path):
    folder = str(tmp_path / "eval")
    with tf.Graph().as_default():
        event_writer(folder).flush()
        shutil.rmtree(folder)
        writer = event_writer(folder)
        writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="loss", simple_value=2.0)]), 7)
        writer.flush()
    assert read_eval_metrics(f"{folder}/*.tfevents.*") == {7: {"loss": 2}}


def test_the_events_of_a_users_hook_with_a_relative_path_stay_whole(tmp_path, monkeypatch, classifier, data, batches):
    monkeypatch.chdir(tmp_path)
    estimator = et.model_to_estimator(classifier(), model_dir="run", config=et.RunConfig(save_summary_steps=1))
    hooks = [et.StepCounterHook(every_n_steps=2, output_dir="run")]
    estimator.train(batches(data, 16), steps=6, hooks=hooks)
    v1.summary.FileWriterCache.clear()
    (file,) = tmp_path.glob("run/events.out.tfevents.*")
    tags = [value.tag for event in v1.train.summary_iterator(str(file)) for value in event.summary.value]
    assert (tags.count("loss"), tags.count("global_step/sec")) == (6, 2)
