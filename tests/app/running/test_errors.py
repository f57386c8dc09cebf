"""Errors of a run that its files, its data or its folder are to blame for end as one line."""

import re
import shutil
import threading

import pytest
import tensorflow as tf
from records import write_records

from estimator_train import distribution
from estimator_train._engine.host.training_lock import training_lock
from estimator_train._engine.session.out_of_memory import explaining_oom
from estimator_train.app import datasets
from estimator_train.app.errors import SettingError, as_flag, one_line_errors
from estimator_train.app.running.errors import run_errors
from estimator_train.input_fns import image_files
from estimator_train.input_fns.images.decoding import decode_image

GENERATORS = """
import numpy as np
import tf_keras as keras
from estimator_train import input_fns

def examples():
    yield np.ones(2, "float32"), np.ones(1, "float32")
    raise KeyError("lost sample 7")

in_process = input_fns.generator(examples, batch_size=1)
in_worker = input_fns.generator(examples, batch_size=1, workers=1)

def build():
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    return model
"""


@pytest.mark.slow
def test_an_error_in_a_generator_names_its_file_and_line(command, tmp_path):
    (tmp_path / "own.py").write_text(GENERATORS)
    for name in ("in_process", "in_worker"):
        flags = ["--input-fn", f"own.py:{name}", "--eval-input-fn", f"own.py:{name}", "--model", "own.py:build"]
        code, _, errors = command(*flags, "--model-dir", name)
        assert code == 2
        line = r"estimator_train: the input_fn's generator raised KeyError: 'lost sample 7'( \(\S+own.py, line 8\))?"
        found = re.fullmatch(line, errors.splitlines()[-1])
        assert found and (found[1] or name == "in_worker")  # which place a worker tells is up to cloudpickle


OOM = "OOM when allocating tensor with shape[64,96] and type float on /job:localhost/device:GPU:0 by allocator"
CPU = "the CPU instead (CUDA_VISIBLE_DEVICES=-1)"
OTHERS = ["mixed_precision", "recompute", "accumulate_steps"]


@pytest.mark.parametrize(
    ("run", "advice"),
    [
        (run_errors(), f"{CPU}."),
        (run_errors(OTHERS), f"a smaller batch per replica (--batch-size); {CPU}."),
        (run_errors(["batch_size", *OTHERS[1:]]), f"mixed precision (--mixed-precision); {CPU}."),
    ],
)
def test_a_full_memory_names_only_flags_that_the_command_takes(run, advice):
    with pytest.raises(SettingError) as raised, run, explaining_oom():
        raise tf.errors.ResourceExhaustedError(None, None, OOM)
    fault = "GPU:0 is out of memory for the tensor float [64,96]."
    assert raised.value.spelled(as_flag) == f"{fault} Try, in this order: {advice}"


def test_an_op_without_a_deterministic_kernel_names_the_flags():
    lack = "GPU MaxPool gradient ops do not yet have a deterministic XLA implementation"
    text = f"Graph execution error:\n\nDetected at node MaxPoolGrad\n  (0) UNIMPLEMENTED:  {lack}.\n\t [[while/body]]"
    with pytest.raises(SettingError, match=f"^{lack}; leave out deterministic or"), run_errors():
        raise tf.errors.UnimplementedError(None, None, text)


def test_an_argument_of_the_library_is_spelled_as_its_flag(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["gpu"])
    with pytest.raises(SettingError) as raised, one_line_errors():
        distribution.gpus(2)
    line = "--gpus 2: TensorFlow sees 1; use --gpus 1; use --replicas 2 for CPU replicas"
    assert raised.value.spelled(as_flag) == line
    with pytest.raises(SettingError, match="^all_reduce=nccl needs GPUs"), run_errors():
        distribution.cpu_replicas(2, all_reduce="nccl")


NAN = """
import tensorflow as tf

def nan_input_fn():
    return tf.data.Dataset.from_tensors(([[1.0]], [[float("nan")]])).repeat()
"""


def test_a_loss_that_becomes_nan_is_one_line(command, own_flags, tmp_path):
    (tmp_path / "nan.py").write_text(NAN)
    code, _, errors = command(*own_flags, "--input-fn", "nan.py:nan_input_fn", "--model-dir", "run", "--max-steps", 3)
    assert code == 1
    assert errors.splitlines()[-1].startswith("estimator_train: the loss has become NaN, and training has ended: lower")
    assert "Traceback" not in errors


def test_a_full_disk_is_one_line(command, own_flags, monkeypatch):
    def save(*_, **__):
        tf.io.write_file("/dev/full", "contents")

    monkeypatch.setattr(tf.train.CheckpointManager, "save", save)
    code, _, errors = command(*own_flags, "--model-dir", "run", "--max-steps", 3)
    assert code == 2
    assert errors.splitlines()[-1].startswith("estimator_train: the disk of /dev is full, a file did not fit: ")


def test_a_model_dir_that_is_deleted_meanwhile_is_one_line(command, own_flags, tmp_path, monkeypatch):
    save = tf.train.CheckpointManager.save

    def delete_and_save(*arguments, **options):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        return save(*arguments, **options)

    monkeypatch.setattr(tf.train.CheckpointManager, "save", delete_and_save)
    code, _, errors = command(*own_flags, "--model-dir", "run", "--max-steps", 3)
    assert code == 1
    assert errors.splitlines()[-1].startswith("estimator_train: run was deleted during training: it has only check")
    assert "Traceback" not in errors


def test_a_second_training_in_a_folder_is_refused_before_it_writes_there(command, own_flags, tmp_path):
    def hold():
        with training_lock(str(tmp_path / "run")):
            held.set()
            done.wait()

    held, done = threading.Event(), threading.Event()
    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    code, _, errors = command(*own_flags, "--model-dir", "run", "--max-steps", 3)
    done.set()
    other.join()
    assert code == 2
    assert errors.splitlines()[-1].startswith("estimator_train: run is in use by a training, in another thread of this")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["training.lock"]


@pytest.mark.slow
@pytest.mark.parametrize("cache", [None, "memory"])
def test_a_damaged_file_with_brackets_in_its_name_is_one_line(tmp_path, cache):
    path = tmp_path / "data[1]" / "cat" / "scan[1].jpeg"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    with pytest.raises(SettingError) as error, run_errors():
        list(image_files([path], ["cat"], num_epochs=1, cache=cache)())
    assert str(error.value) == f"{path} cannot be decoded: no readable image; delete it"


def test_an_encoded_image_of_another_format_is_one_line():
    images = tf.data.Dataset.from_tensors(b"GIF89a" + bytes(20)).map(lambda encoded: decode_image(encoded, (8, 8)))
    with pytest.raises(SettingError) as error, run_errors():
        list(images)
    assert str(error.value) == "an image cannot be decoded: it is not a readable image of at most 89478485 pixels"


def test_an_encoded_image_that_is_cut_off_is_one_line():
    torn = tf.io.encode_jpeg(tf.zeros([32, 32, 3], tf.uint8)).numpy()[:200]
    images = tf.data.Dataset.from_tensors(torn).map(lambda encoded: decode_image(encoded, (8, 8)))
    with pytest.raises(SettingError) as error, run_errors():
        list(images)
    assert str(error.value) == "an image cannot be decoded: Invalid JPEG data, size 200 bytes"


def test_a_label_of_a_record_that_is_no_class_is_one_line(tmp_path):
    for name in ("train.tfrecord", "test.tfrecord"):
        write_records(tmp_path / name, [(bytes(8), 7)])
    (tmp_path / "labels.txt").write_text("a\nb\n")
    data = datasets.open_dataset("tfrecord", tmp_path)
    with pytest.raises(SettingError) as error, run_errors():
        list(data.eval_input_fn(image_size=(8, 8), batch_size=1)())
    assert str(error.value) == "7 is no class: image/class/label must be below 2, the lines of labels.txt"
