"""Outputs of frozen layers are computed once; on disk they outlive the process, and serve only the same examples."""

import errno
import os
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_train._engine.host import array_store
from estimator_train._engine.host.full_disk import FullDiskError
from estimator_train._engine.input_fns.frozen_features import frozen_features
from estimator_train._engine.keras import feature_cache
from estimator_train._engine.keras.feature_cache import columns_of


class Examples:
    """An input_fn over 12 examples in batches of 5."""

    def __init__(self):
        self.x = np.arange(24, dtype="float32").reshape(12, 2)
        self.labels = np.arange(12)

    def __call__(self):
        return tf.data.Dataset.from_tensor_slices((self.x, self.labels)).batch(5)


class Doubled:
    """Makes a frozen part that records the first numbers of its inputs."""

    def __init__(self):
        self.seen = []
        self.fails_at = None

    def __call__(self, features):
        first = features.numpy()[:, 0].tolist()
        if self.fails_at in first:
            raise KeyboardInterrupt
        self.seen.append(first)
        return [2 * features.numpy()]


@pytest.fixture
def examples():
    return Examples()


def columns(examples, compute, folder, frozen_id="", **kwargs):
    features = frozen_features(examples, cache=folder, **kwargs)
    return columns_of(features, examples(), compute, frozen_id)


ALL = [[0.0, 2, 4, 6, 8], [0], [10, 12, 14, 16, 18], [20, 22]]  # the second call checks a single example


@pytest.mark.parametrize("on_disk", [True, False])
def test_every_example_is_computed_once_and_kept_in_order(examples, on_disk, tmp_path):
    compute = Doubled()
    doubled, labels = columns(examples, compute, tmp_path if on_disk else "memory")
    np.testing.assert_array_equal(doubled, 2 * examples.x)
    np.testing.assert_array_equal(labels, examples.labels)
    assert compute.seen == ALL


def test_what_is_on_disk_is_not_computed_again(examples, tmp_path):
    columns(examples, Doubled(), tmp_path)
    again = Doubled()
    doubled, _ = columns(examples, again, tmp_path)
    np.testing.assert_array_equal(doubled, 2 * examples.x)
    assert again.seen == []


@pytest.mark.parametrize("change", ["an example", "a label", "one less", "one more"])
def test_changed_examples_are_noticed(examples, change, tmp_path):
    columns(examples, Doubled(), tmp_path)
    if change == "an example":
        examples.x[7] = -1
    elif change == "a label":
        examples.labels[11] = 0
    elif change == "one less":
        examples.x, examples.labels = examples.x[:11], examples.labels[:11]
    else:
        examples.x, examples.labels = np.tile(examples.x, (2, 1)), np.tile(examples.labels, 2)
    doubled, labels = columns(examples, Doubled(), tmp_path)
    np.testing.assert_array_equal(doubled, 2 * examples.x)
    np.testing.assert_array_equal(labels, examples.labels)


def test_a_fingerprint_spares_reading_the_examples(examples, tmp_path):
    examples.fingerprint = lambda: "first"
    columns(examples, Doubled(), tmp_path)
    examples.x += 1
    doubled, _ = columns(examples, Doubled(), tmp_path)
    np.testing.assert_array_equal(doubled, 2 * (examples.x - 1))
    examples.fingerprint = lambda: "second"
    doubled, _ = columns(examples, Doubled(), tmp_path)
    np.testing.assert_array_equal(doubled, 2 * examples.x)


def test_other_frozen_layers_have_other_features(examples, tmp_path):
    columns(examples, Doubled(), tmp_path, "one")
    other = Doubled()
    columns(examples, other, tmp_path, "other")
    assert other.seen == ALL


def test_interrupted_filling_resumes_where_it_stopped(examples, tmp_path):
    interrupted, rest = Doubled(), Doubled()
    interrupted.fails_at = 20
    with pytest.raises(KeyboardInterrupt):
        columns(examples, interrupted, tmp_path)
    doubled, labels = columns(examples, rest, tmp_path)
    assert rest.seen == [[20, 22], [20]]
    np.testing.assert_array_equal(doubled, 2 * examples.x)
    np.testing.assert_array_equal(labels, examples.labels)


def test_rows_that_are_not_in_the_digest_yet_are_computed_again(examples, tmp_path, monkeypatch):
    def interrupted(digests, leaves, rows):
        if 10 in leaves[0]:
            raise KeyboardInterrupt
        update(digests, leaves, rows)

    update, rest = feature_cache._update, Doubled()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(feature_cache, "_update", interrupted)
        columns(examples, Doubled(), tmp_path)
    doubled, labels = columns(examples, rest, tmp_path)
    assert rest.seen == [ALL[2], [10], ALL[3]]
    np.testing.assert_array_equal(doubled, 2 * examples.x)
    np.testing.assert_array_equal(labels, examples.labels)


@pytest.mark.parametrize("knows_how_many", [True, False])
def test_features_in_memory_take_their_room_at_once_or_double_it(knows_how_many, examples, monkeypatch):
    made, lazy_zeros = [], array_store.lazy_zeros
    monkeypatch.setattr(array_store, "lazy_zeros", lambda *array: made.append(array[0]) or lazy_zeros(*array))
    dataset = examples() if knows_how_many else examples().filter(lambda *batch: True)
    doubled, labels = columns_of(frozen_features(lambda: dataset, cache="memory"), dataset, Doubled(), "")
    np.testing.assert_array_equal(doubled, 2 * examples.x)
    np.testing.assert_array_equal(labels, examples.labels)
    rows = [15] if knows_how_many else [5, 10, 20]
    assert made == [shape for room in rows for shape in ((room, 2), (room,))]


def test_what_a_killed_process_left_is_cut_off(examples, tmp_path):
    interrupted = Doubled()
    interrupted.fails_at = 10
    with pytest.raises(KeyboardInterrupt):
        columns(examples, interrupted, tmp_path)
    for file in tmp_path.glob("*/0.rows"):
        file.write_bytes(file.read_bytes() + b"half a row")
    doubled, _ = columns(examples, Doubled(), tmp_path)
    np.testing.assert_array_equal(doubled, 2 * examples.x)


def test_damaged_files_are_computed_anew(examples, tmp_path):
    columns(examples, Doubled(), tmp_path)
    (file,) = tmp_path.glob("*/0.rows")
    file.write_bytes(file.read_bytes()[:-1])
    doubled, _ = columns(examples, Doubled(), tmp_path)
    np.testing.assert_array_equal(doubled, 2 * examples.x)


def test_of_two_at_once_one_computes_and_the_other_waits(examples, tmp_path):
    compute, results = Doubled(), []
    threads = [
        threading.Thread(target=lambda: results.append(columns(examples, compute, tmp_path)[0])) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert compute.seen == ALL
    for doubled in results:
        np.testing.assert_array_equal(doubled, 2 * examples.x)
    assert len(results) == 2


def test_the_size_is_printed_before_filling(examples, log_lines):
    columns(examples, Doubled(), "memory")
    computing = next(line for line in log_lines if "Computing" in line)
    assert "at most 15 examples: with the labels float32[2], int64[] each, 0.0 MB" in computing


def test_what_does_not_fit_in_memory_is_refused(examples, monkeypatch):
    monkeypatch.setattr(array_store, "free_memory", lambda: 100)
    with pytest.raises(MemoryError, match=r"take 0\.0 MB, and memory has 0\.0 MB left; use a directory as cache"):
        columns(examples, Doubled(), "memory")


def test_what_does_not_fit_on_the_disk_is_refused(examples, monkeypatch, tmp_path):
    monkeypatch.setattr(array_store.shutil, "disk_usage", lambda folder: types.SimpleNamespace(free=100))
    with pytest.raises(OSError, match=r"and the disk of .* has 0\.0 MB left; use another directory"):
        columns(examples, Doubled(), tmp_path)


def test_a_full_disk_is_reported_with_the_directory(examples, monkeypatch, tmp_path):
    def append(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(feature_cache._Store, "append", append)
    with pytest.raises(FullDiskError, match=f"the disk of {tmp_path}.* is full, a file did not fit"):
        columns(examples, Doubled(), tmp_path)


def test_float16_halves_float32_features_alone(examples):
    doubled, labels = columns(examples, Doubled(), "memory", dtype="float16")
    assert (doubled.dtype, labels.dtype) == (np.float16, np.int64)
    np.testing.assert_array_equal(doubled, 2 * examples.x)
    examples.x[3] = 1e5
    with pytest.raises(ValueError, match=r"float16 cannot represent features of 2e\+05"):
        columns(examples, Doubled(), "memory", dtype="float16")


def test_bfloat16_features_stay_what_they_are(examples, tmp_path):
    doubled, _ = columns(examples, lambda x: [tf.cast(x, tf.bfloat16).numpy()], tmp_path)
    assert doubled.dtype == tf.bfloat16.as_numpy_dtype
    np.testing.assert_array_equal(doubled.astype("float32"), examples.x)


def test_examples_that_differ_in_shape_are_refused():
    def ragged():
        batches = [np.zeros((2, 3)), np.zeros((2, 4))]
        return tf.data.Dataset.from_generator(lambda: batches, output_signature=tf.TensorSpec([None, None]))

    with pytest.raises(ValueError, match="examples of one shape.*resize or pad them"):
        columns(ragged, lambda x: [x.numpy()], "memory")


def test_labels_that_are_strings_are_refused():
    def named():
        return tf.data.Dataset.from_tensors((np.zeros((2, 3)), ["a", "b"]))

    with pytest.raises(ValueError, match="string labels; map them"):
        columns(named, lambda x: [x.numpy()], "memory")


def test_no_examples_are_refused():
    with pytest.raises(ValueError, match="returned no data"):
        columns(lambda: tf.data.Dataset.from_tensors(np.zeros(3)).take(0), Doubled(), "memory")
