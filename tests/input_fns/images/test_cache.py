import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from estimator_train._engine.host import array_store
from estimator_train._engine.host.full_disk import FullDiskError
from estimator_train.input_fns import image_files
from estimator_train.input_fns.images import cache as cache_module

CLASSES = ["cat", "dog"]


@pytest.fixture
def folder(tmp_path):
    """Twelve images, six a class: all grayscale but the fourth and the ninth."""
    rng = np.random.default_rng(2)
    for i in range(12):
        path = tmp_path / "data" / CLASSES[i // 6] / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (9, 11, 3 if i in (3, 8) else 1), np.uint8)
        path.write_bytes(tf.io.encode_png(pixels).numpy())
    return tmp_path / "data"


@pytest.fixture(params=["memory", "folder"])
def cache(request, tmp_path):
    return "memory" if request.param == "memory" else tmp_path / "cache"


in_a_folder = pytest.mark.parametrize(
    "cache", [pytest.param("memory", marks=pytest.mark.slow), "folder"], indirect=True
)


def make(folder, cache, **options):
    options = {"shuffle": True, "batch_size": 5, "num_epochs": 2, "seed": 3} | options
    return image_files(folder / "*/*", CLASSES, (8, 6), cache=cache, **options)


def batches(input_fn, context=None):
    return list(input_fn(context).as_numpy_iterator())


def assert_equal(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


def data_files(folder):
    return sorted(folder.glob("*.float32"))


def no_decoding(*args, **kwargs):
    raise AssertionError("decoded again")


@pytest.mark.slow
def test_batches_are_those_without_a_cache(folder, tmp_path):
    expected = batches(make(folder, None))
    input_fns = [make(folder, cache) for cache in ("memory", tmp_path / "cache")]
    for input_fn in input_fns:
        assert_equal(batches(input_fn), expected)
    for path in folder.glob("*/*"):
        path.unlink()
    for input_fn in input_fns:
        assert_equal(batches(input_fn), expected)


@pytest.mark.slow
def test_skipped_files_are_those_without_a_cache(folder, tmp_path, warnings):
    (folder / "cat/01.png").write_bytes(b"not an image")
    (folder / "dog/11.png").write_bytes(b"")
    expected = batches(make(folder, None, on_error="skip"))
    for cache in ("memory", tmp_path / "cache", tmp_path / "cache"):
        input_fn = make(folder, cache, on_error="skip")
        assert_equal(batches(input_fn), expected)
        assert sorted(input_fn.skipped) == [str(folder / "cat/01.png"), str(folder / "dog/11.png")]
    assert len(warnings) == 4


@pytest.mark.slow
def test_a_file_that_can_be_decoded_later_is_in_the_cache_then(folder, tmp_path):
    path = folder / "cat/01.png"
    good, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)

    def write(content):
        path.write_bytes(content)
        os.utime(path, ns=times)

    write(good[:30] + bytes(len(good) - 30))  # as a file system that fails may read it
    (first,) = list(make(folder, tmp_path, on_error="skip", batch_size=12, num_epochs=1)().as_numpy_iterator())
    write(good)
    assert len(first[0]) == 11
    other = folder / "dog/11.png"
    other_good, stat = other.read_bytes(), other.stat()
    other.write_bytes(bytes(len(other_good)))
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"dog/11.png cannot be decoded"):
        make(folder, tmp_path)()
    other.write_bytes(other_good)
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert_equal(batches(make(folder, tmp_path)), batches(make(folder, None)))


@in_a_folder
def test_a_file_that_cannot_be_decoded_is_named_and_nothing_is_kept(folder, cache):
    bad = folder / "cat/01.png"
    bad.write_bytes(b"not an image")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"cat/01.png cannot be decoded.*on_error"):
        make(folder, cache)()
    assert cache == "memory" or data_files(cache) == []


@pytest.mark.slow
def test_input_pipelines_cache_their_shards(folder, tmp_path):
    for pipeline in range(2):
        context = tf.distribute.InputContext(2, pipeline, 2)
        expected = batches(make(folder, None), context)
        for cache in ("memory", tmp_path / "cache"):
            assert_equal(batches(make(folder, cache), context), expected)
    assert len(data_files(tmp_path / "cache")) == 2


@pytest.mark.slow
def test_it_runs_in_a_session(folder, cache):
    expected = batches(make(folder, None))[0][0]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        images, _ = tf.compat.v1.data.make_one_shot_iterator(make(folder, cache)()).get_next()
        assert session.run(images).shape == expected.shape


def test_a_directory_is_reused_by_later_runs(folder, tmp_path, monkeypatch):
    expected = batches(make(folder, tmp_path))
    (data,) = data_files(tmp_path)
    assert data.stat().st_size == (10 + 2 * 3) * 8 * 6 * 4
    monkeypatch.setattr(cache_module, "decoded", no_decoding)
    assert_equal(batches(make(folder, tmp_path)), expected)


@pytest.mark.slow
def test_other_files_sizes_and_options_have_a_cache_of_their_own(folder, tmp_path):
    def decoded_anew(**options):
        before = len(data_files(tmp_path))
        image_files(folder / "*/*", CLASSES, **{"image_size": (8, 6), "cache": tmp_path, **options})()
        return len(data_files(tmp_path)) - before

    path = folder / "cat/00.png"
    assert decoded_anew() == 1
    assert decoded_anew() == 0
    assert decoded_anew(batch_size=3, shuffle=True) == 0
    assert decoded_anew(image_size=(6, 8)) == 1
    assert decoded_anew(fast=True) == 1
    os.utime(path, (1, 1))
    assert decoded_anew() == 1
    path.write_bytes((folder / "cat/03.png").read_bytes())
    os.utime(path, (1, 1))
    assert decoded_anew() == 1
    path.rename(path.with_name("99.png"))
    assert decoded_anew() == 1


def test_a_change_within_a_second_that_keeps_the_size_is_noticed(folder, tmp_path):
    path = folder / "cat/00.png"
    os.utime(path, ns=(10**18, 10**18))
    make(folder, tmp_path)()
    os.utime(path, ns=(10**18, 10**18 + 10**6))
    make(folder, tmp_path)()
    assert len(data_files(tmp_path)) == 2


@pytest.mark.slow
def test_half_a_cache_is_not_taken_for_a_whole_one(folder, tmp_path):
    expected = batches(make(folder, tmp_path))
    (data,) = data_files(tmp_path)
    # As left by a process that was killed before the end.
    data.with_suffix(".json").unlink()
    data.write_bytes(data.read_bytes()[:500])
    assert_equal(batches(make(folder, tmp_path)), expected)


def test_a_damaged_cache_is_named(folder, tmp_path):
    make(folder, tmp_path)()
    (data,) = data_files(tmp_path)
    data.write_bytes(data.read_bytes()[:500])
    with pytest.raises(ValueError, match=rf"{data} is damaged; delete it"):
        make(folder, tmp_path)()


def test_of_two_that_start_at_once_one_fills_the_folder(folder, tmp_path, monkeypatch):
    fillings = []

    def counted(*args, decoded=cache_module.decoded, **kwargs):
        fillings.append(args)
        return decoded(*args, **kwargs)

    monkeypatch.setattr(cache_module, "decoded", counted)
    # The file lock works in the same way for threads and processes.
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(lambda input_fn: batches(input_fn), [make(folder, tmp_path) for _ in range(2)])
    assert len(fillings) == 1
    assert_equal(one, other)


def test_a_cache_without_room_is_refused(folder, cache, monkeypatch):
    monkeypatch.setattr(array_store, "free_memory", lambda: 2000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**6, 10**6, 2000))
    with pytest.raises((MemoryError, OSError), match=r"12 images of 8 x 6 takes at least .* free; use another cache"):
        make(folder, cache)()


def test_a_cache_that_fills_the_disk_is_reported_with_its_directory(folder, tmp_path):
    make(folder, tmp_path / "cache")()
    (data,) = data_files(tmp_path / "cache")
    data.with_suffix(".json").unlink()
    data.unlink()
    data.symlink_to("/dev/full")
    with pytest.raises(FullDiskError, match=f"the disk of {tmp_path / 'cache'} is full, a file did not fit"):
        make(folder, tmp_path / "cache")()
    assert not data_files(tmp_path / "cache")


def test_a_cache_that_runs_out_of_memory_for_colour_is_refused(folder, monkeypatch):
    monkeypatch.setattr(array_store, "free_memory", lambda: 13 * 8 * 6 * 4)
    with pytest.raises(MemoryError, match="12 images of 8 x 6"):
        make(folder, "memory")()


def test_a_cache_is_refused_with_a_service(folder):
    with pytest.raises(ValueError, match=r"cache='memory'.*service='grpc://localhost:1'"):
        make(folder, "memory", service="grpc://localhost:1")


def test_the_manifest_lists_what_a_cache_holds(folder, tmp_path):
    make(folder, tmp_path)()
    (data,) = data_files(tmp_path)
    manifest = json.loads(data.with_suffix(".json").read_text())
    assert manifest["image_size"] == [8, 6]
    assert manifest["paths"] == [str(path) for path in sorted(folder.glob("*/*"))]
    assert manifest["channels"] == [1, 1, 1, 3, 1, 1, 1, 1, 3, 1, 1, 1]


@in_a_folder
def test_a_batch_of_damaged_files_alone_is_left_out(folder, cache):
    bad = sorted(folder.glob("*/*"))[2:9]
    for path in bad:
        path.write_bytes(b"")
    input_fn = make(folder, cache, shuffle=False, batch_size=2, num_epochs=1, on_error="skip")
    assert [len(images) for images, _ in batches(input_fn)] == [2, 2, 1]
    assert input_fn.skipped == list(map(str, bad))
