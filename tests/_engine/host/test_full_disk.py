"""A full disk is reported as one: errors of TensorFlow, Python and the event files' writer, made by /dev/full."""

import errno
import re
import threading

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train._engine.host.full_disk import FullDiskError, explaining_full_disk
from estimator_train._engine.session.out_of_memory import explaining_oom

LINE = r"the disk of {} is full, a file did not fit: [\d,.]+ MB of [\d,.]+ MB are free without it; free some space, .*"


def write_in_tensorflow():
    tf.io.write_file("/dev/full", "contents")


def write_in_python():
    with open("/dev/full", "w") as file:
        file.write("contents")


def flush_events():
    """Fails as EventFileWriter does, whose thread would also print the error."""
    raise RuntimeError("/dev/full; No space left on device\n\tFailed to flush 7 events to /dev/full")


def save_checkpoint():
    path = "/tmp/model.ckpt-0_temp/part-00000-of-00001.data-00000-of-00001.tempstate7"
    raise tf.errors.ResourceExhaustedError(None, None, f"{{{{function_node save}}}} {path}; No space left on device")


@pytest.mark.parametrize(
    ("write", "told"),
    [(write_in_tensorflow, "/dev"), (write_in_python, "{tmp_path}"), (flush_events, "/dev"), (save_checkpoint, "/tmp")],
)
def test_a_full_disk_is_one_line_with_the_folder_and_its_free_space(write, told, tmp_path):
    with pytest.raises(FullDiskError) as caught, explaining_oom(), explaining_full_disk(tmp_path / "not" / "yet"):
        write()
    assert re.fullmatch(LINE.format(told.format(tmp_path=tmp_path)), str(caught.value))
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "broken"), RuntimeError("other"), tf.errors.DataLossError(None, None, "bad")]
)
def test_other_errors_are_left_alone(error, tmp_path):
    with pytest.raises(type(error)) as caught, explaining_full_disk(tmp_path):
        raise error
    assert caught.value is error


def test_the_thread_that_writes_events_shows_no_traceback_of_a_full_disk(monkeypatch, tmp_path):
    shown = []
    monkeypatch.setattr(threading, "excepthook", lambda args: shown.append(str(args.exc_value)))

    def fail(error, name):
        def raise_error():
            raise error

        thread = threading.Thread(target=raise_error, name=name)
        thread.start()
        thread.join()

    full = RuntimeError("/dev/full; No space left on device\n\tFailed to flush 7 events to /dev/full")
    with explaining_full_disk(tmp_path):
        fail(full, "EventLoggerThread")
        assert shown == []
        fail(RuntimeError("another"), "EventLoggerThread")
        fail(full, "one of the user's")
    assert shown == ["another", str(full)]


def save_to_full_disk(*args, **kwargs):
    write_in_tensorflow()


@pytest.mark.parametrize("async_checkpoints", [False, True])
def test_saving_a_checkpoint_on_a_full_disk(async_checkpoints, classifier, data, batches, tmp_path, monkeypatch):
    monkeypatch.setattr(tf.train.CheckpointManager, "save", save_to_full_disk)
    config = et.RunConfig(async_checkpoints=async_checkpoints)
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=tmp_path, config=config)
    with pytest.raises(FullDiskError, match="the disk of /dev is full"):
        estimator.train(batches(data, 48))


def test_an_export_on_a_full_disk(classifier, data, batches, tmp_path, monkeypatch):
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=tmp_path / "run")
    monkeypatch.setattr(estimator._model, "export", save_to_full_disk)
    spec = {"dense_input": tf.TensorSpec([None, 4])}
    with pytest.raises(FullDiskError, match="the disk of /dev is full"):
        estimator.export_saved_model(tmp_path / "export", et.export.build_raw_serving_input_receiver_fn(spec))


def test_a_generator_of_the_user_that_fills_a_disk_keeps_its_own_error(classifier, tmp_path):
    def examples():
        write_in_python()
        yield [0.0] * 4, [0.0] * 3

    spec = tf.TensorSpec(4), tf.TensorSpec(3)
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=tmp_path)
    with pytest.raises(tf.errors.OpError, match="write_in_python"):
        estimator.train(lambda: tf.data.Dataset.from_generator(examples, output_signature=spec).batch(1))
