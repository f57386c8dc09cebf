import os
import pathlib
import socket
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train.input_fns import image_files

CLASSES = ["cat", "dog"]
OCT2017 = pathlib.Path(__file__).parents[3] / "shared" / "data" / "OCT2017"


def write_image(path, channels=3, seed=0, encode=tf.io.encode_jpeg):
    path.parent.mkdir(exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (20 + seed, 30, channels), np.uint8)
    path.write_bytes(encode(pixels).numpy())


@pytest.fixture
def folder(tmp_path):
    """Six images: JPEG and PNG, grayscale and colour, three a class."""
    for i, label in enumerate(CLASSES):
        write_image(tmp_path / label / "a.jpeg", channels=1, seed=10 * i + 1)
        write_image(tmp_path / label / "b.jpeg", channels=3, seed=10 * i + 2)
        write_image(tmp_path / label / "c.png", channels=1 + 2 * i, seed=10 * i + 3, encode=tf.io.encode_png)
    return tmp_path


@pytest.fixture
def many(tmp_path):
    """Forty images of one pixel, twenty a class, told apart by their value."""
    for i in range(40):
        path = tmp_path / CLASSES[i // 20] / f"{i:02}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(tf.io.encode_png(np.full((1, 1, 1), i, np.uint8)).numpy())
    return tmp_path


def by_hand(paths, size):
    images, labels = [], []
    for path in paths:
        image = tf.io.decode_image(tf.io.read_file(str(path)), channels=3, expand_animations=False)
        images.append(tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), size).numpy())
        labels.append(path.parent.name)
    return np.stack(images), labels


def order_of(dataset):
    """Returns the pixel values of `many`, batch by batch."""
    return [values_of(images) for images, _ in dataset.as_numpy_iterator()]


def values_of(images):
    return np.rint(images[:, 0, 0, 0] * 255).astype(int).tolist()


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_images_are_bit_equal_to_a_pipeline_written_by_hand(folder, on_error, warnings):
    make = image_files(str(folder / "*/*"), CLASSES, (16, 24), num_epochs=1, on_error=on_error)
    dataset = make()
    assert dataset.element_spec[0] == tf.TensorSpec((None, 16, 24, 3), tf.float32)
    ((images, labels),) = dataset.as_numpy_iterator()
    assert make.skipped == [] and warnings == []
    expected, names = by_hand(sorted(folder.glob("*/*")), (16, 24))
    np.testing.assert_array_equal(images, expected)
    np.testing.assert_array_equal(images[0, ..., 0], images[0, ..., 2])  # of a grayscale file
    assert 0 <= images.min() < images.max() <= 1
    assert labels.dtype == np.float32
    np.testing.assert_array_equal(labels, np.eye(2)[[CLASSES.index(name) for name in names]])


@pytest.mark.skipif(not OCT2017.exists(), reason="no OCT2017 folder beside the repository")
def test_oct_scans_are_bit_equal_to_a_pipeline_written_by_hand():
    classes = ["CNV", "DME", "DRUSEN", "NORMAL"]
    dataset = image_files(OCT2017 / "test/*/*.jpeg", classes, num_epochs=1, batch_size=3)()
    batches = list(dataset.as_numpy_iterator())
    expected, _ = by_hand(sorted((OCT2017 / "test").glob("*/*.jpeg")), (224, 224))
    np.testing.assert_array_equal(np.concatenate([images for images, _ in batches]), expected)


def test_labels_may_be_class_indices(folder):
    dataset = image_files(folder / "*/*", CLASSES, num_epochs=1, one_hot=False)()
    labels = next(iter(dataset))[1]
    assert labels.dtype == tf.int64 and labels.shape == (6,)
    assert labels.numpy().tolist() == [0, 0, 0, 1, 1, 1]


def test_patterns_and_paths_may_be_listed(folder):
    bracket = folder / "cat" / "[1].jpeg"
    write_image(bracket)
    patterns = [str(folder / "cat/*"), folder / "dog/*.jpeg"]
    expected = sorted([*folder.glob("cat/*"), *folder.glob("dog/*.jpeg")])
    for listed in (patterns, expected):
        assert [os.fsdecode(path) for path in image_files(listed, CLASSES).paths] == [str(path) for path in expected]


def test_batches_come_in_order_and_the_last_one_is_short(many):
    dataset = image_files(many / "*/*", CLASSES, (1, 1), batch_size=16, num_epochs=1)()
    assert int(dataset.cardinality()) == 3
    assert order_of(dataset) == [list(range(16)), list(range(16, 32)), list(range(32, 40))]


def test_without_num_epochs_the_data_has_no_end(many):
    dataset = image_files(many / "*/*", CLASSES, (1, 1), batch_size=40)()
    assert int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
    assert order_of(dataset.take(3)) == [list(range(40))] * 3


@pytest.mark.slow
def test_shuffle_is_anew_each_epoch_and_the_same_for_the_same_seed(many):
    def order(seed):
        return order_of(image_files(many / "*/*", CLASSES, (1, 1), True, 40, 2, seed=seed)())

    first, second = order(5)
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != second
    assert order(5) == [first, second]
    assert order(6) != [first, second]


@pytest.mark.slow
def test_the_global_seed_governs_a_shuffle_without_one(many):
    def order():
        tf.random.set_seed(7)
        return order_of(image_files(many / "*/*", CLASSES, (1, 1), True, num_epochs=1)())

    assert order() == order()


def test_a_shuffle_draws_from_all_files_whatever_the_buffer_size(many):
    make = image_files(many / "*/*", CLASSES, (1, 1), True, num_epochs=1, buffer_size=2, seed=1)
    (order,) = order_of(make())
    changes = sum((a < 20) != (b < 20) for a, b in zip(order, order[1:], strict=False))
    assert changes > 8


def test_input_pipelines_share_the_files(many):
    make = image_files(many / "*/*", CLASSES, (1, 1), True, num_epochs=1)
    shards = [order_of(make(tf.distribute.InputContext(2, i, 2)))[0] for i in range(2)]
    assert sorted(shards[0]) == list(range(0, 40, 2)) and sorted(shards[1]) == list(range(1, 40, 2))


@pytest.mark.slow
def test_two_replicas_take_a_batch_each(many):
    (many / "cat/01.png").write_bytes(b"")
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    make = image_files(many / "*/*", CLASSES, (1, 1), batch_size=3, on_error="skip")
    images, _ = next(iter(strategy.distribute_datasets_from_function(make)))
    values = [values_of(value.numpy()) for value in strategy.experimental_local_results(images)]
    assert values == [[0, 2, 3], [4, 5, 6]]
    assert make.skipped == [str(many / "cat/01.png")]


@pytest.mark.slow
def test_it_runs_in_a_session_and_eagerly_inside_its_graph(many):
    bad = many / "cat/01.png"
    bad.write_bytes(b"not an image")
    make = image_files(many / "*/*", CLASSES, (1, 1), batch_size=3, num_epochs=1, on_error="skip")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        images, _ = tf.compat.v1.data.make_one_shot_iterator(make()).get_next()
        assert values_of(session.run(images)) == [0, 2, 3]
        with tf.__internal__.eager_context.eager_mode():
            assert sum(order_of(make()), []) == [0, *range(2, 40)]
    assert make.skipped == [str(bad)]


@pytest.mark.slow
def test_a_damaged_file_is_named_in_a_session(many):
    bad = many / "cat/04.png"
    bad.write_bytes(b"not an image")
    make = image_files(many / "*/*", CLASSES, (1, 1), batch_size=3)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        images, _ = tf.compat.v1.data.make_one_shot_iterator(make()).get_next()
        assert values_of(session.run(images)) == [0, 1, 2]
        with pytest.raises(tf.errors.InvalidArgumentError, match="cat/04.png.*cannot be decoded"):
            session.run(images)


def truncated(path):
    return path.read_bytes()[:-40]


def headless(path):
    return b"garbage" + path.read_bytes()


def scrambled(path):
    """Both ends in place, the headers gone."""
    contents = path.read_bytes()
    return contents[:2] + bytes(100) + contents[102:]


def empty(path):
    return b""


DAMAGES = sorted([truncated, headless, scrambled, empty], key=lambda damage: damage.__name__)


@pytest.fixture
def damaged(folder):
    """A JPEG and a PNG with each damage, first and last among the six images."""
    paths = [folder / f"cat/0-{damage.__name__}.jpeg" for damage in DAMAGES]
    paths += [folder / f"dog/z-{damage.__name__}.png" for damage in DAMAGES]
    for path, damage in zip(paths, DAMAGES * 2, strict=True):
        path.write_bytes(damage(folder / ("cat/b.jpeg" if path.suffix == ".jpeg" else "dog/c.png")))
    return [str(path) for path in paths]


def test_each_damaged_file_is_named(folder, damaged):
    batches = iter(image_files(folder / "*/*", CLASSES, batch_size=1)())
    for path in [*damaged[:4], *[None] * 6, *damaged[4:]]:
        if path is None:
            next(batches)
            continue
        with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be decoded") as error:
            next(batches)
        assert path in str(error.value) and "delete it or pass on_error" in str(error.value)


def test_damaged_files_are_skipped_and_reported_once_at_the_end(folder, damaged, warnings):
    make = image_files(folder / "*/*", CLASSES, batch_size=4, num_epochs=2, on_error="skip")
    assert [len(images) for images, _ in make()] == [4, 4, 4]
    assert sorted(make.skipped) == damaged
    (line,) = warnings
    assert line.startswith("8 image files") and any(path in line for path in damaged)


@pytest.mark.slow
def test_data_without_end_reports_each_damaged_file_when_it_is_met(folder, warnings):
    bad = folder / "cat/a.jpeg"
    bad.write_bytes(b"")
    make = image_files(folder / "*/*", CLASSES, batch_size=5, on_error="skip")
    assert [len(images) for images, _ in make().take(3)] == [5, 5, 5]
    (line,) = warnings
    assert str(bad) in line


@pytest.mark.parametrize("num_epochs", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_data_of_damaged_files_alone_is_an_error_not_an_endless_search(folder, num_epochs):
    for path in folder.glob("*/*"):
        path.write_bytes(b"")
    make = image_files(folder / "*/*", CLASSES, num_epochs=num_epochs, on_error="skip")
    with pytest.raises(tf.errors.InvalidArgumentError, match="none of the 6 image files can be decoded"):
        next(iter(make()))


@pytest.mark.slow
def test_batches_after_a_damaged_file_name_no_other_file(many):
    (many / "cat/07.png").write_bytes(b"")
    make = image_files(many / "*/*", CLASSES, (1, 1), batch_size=4, num_epochs=1).starting_at(3, seed=0)
    batches, messages = iter(make()), []
    for _ in range(6):
        try:
            next(batches)
        except tf.errors.InvalidArgumentError as error:
            messages.append(error.message)
    assert "cat/07.png" in messages[0] and "no readable image; delete it" in messages[0]
    assert len(messages) > 1 and all("a file before it is damaged" in message for message in messages[1:])


def test_the_order_of_batches_is_known_whatever_the_options(many):
    options = tf.data.Options()
    options.deterministic = False
    dataset = image_files(many / "*/*", CLASSES, (1, 1), batch_size=4, num_epochs=1)().with_options(options)
    assert sorted(sum(order_of(dataset), [])) == list(range(len(list(many.glob("*/*")))))


def test_a_file_gone_since_it_was_listed_is_named(folder):
    make = image_files(folder / "*/*", CLASSES, num_epochs=1)
    (folder / "cat/b.jpeg").unlink()
    with pytest.raises(tf.errors.InvalidArgumentError, match="cat/b.jpeg.*cannot be read: there is no such file; rest"):
        list(make())


@pytest.mark.slow
def test_batches_are_filled_up_after_files_are_left_out(many):
    for i in (0, 1, 2, 3, 9):
        (many / f"cat/{i:02}.png").write_bytes(b"")
    make = image_files(many / "*/*", CLASSES, (1, 1), batch_size=4, num_epochs=1, on_error="skip")
    batches = order_of(make())
    assert [len(batch) for batch in batches] == [4] * 8 + [3]
    assert sum(batches, []) == [4, 5, 6, 7, 8, *range(10, 40)]


def test_a_folder_that_is_no_label_is_named(folder):
    with pytest.raises(ValueError, match=r"dog/a.jpeg is in directory 'dog'.*\['cat', 'bird'\]"):
        image_files(folder / "*/*", ["cat", "bird"])


def test_a_folder_that_is_no_label_is_skipped_and_counted(folder, warnings):
    make = image_files(folder / "*/*", ["cat"], num_epochs=1, on_error="skip")
    assert sorted(make.skipped) == [str(path) for path in sorted(folder.glob("dog/*"))]
    assert [labels.tolist() for _, labels in make().as_numpy_iterator()] == [[[1.0]] * 3]
    (line,) = warnings
    assert line.startswith("3 image files")


def test_a_pattern_without_match_is_named(folder):
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.tiff"):
        image_files([folder / "*/*", folder / "*/*.tiff"], CLASSES)


def test_an_unknown_on_error_is_refused(folder):
    with pytest.raises(ValueError, match="'ignore'"):
        image_files(folder / "*/*", CLASSES, on_error="ignore")


def test_a_batch_in_colour_and_a_grayscale_one_follow_each_other(folder):
    paths = sorted(folder.glob("*/*"))
    dataset = image_files(paths, CLASSES, (16, 24), batch_size=1, num_epochs=1)()
    assert dataset.element_spec[0] == tf.TensorSpec((None, 16, 24, 3), tf.float32)
    images = np.concatenate([images for images, _ in dataset.as_numpy_iterator()])
    np.testing.assert_array_equal(images, by_hand(paths, (16, 24))[0])


def test_host_batches_have_one_channel_where_all_is_grayscale(folder):
    batches = image_files(folder / "*/*", CLASSES, (16, 24), batch_size=1, num_epochs=1).host_batches()
    assert [images.shape[-1] for images, _ in batches] == [1, 3, 1, 1, 3, 3]


@pytest.mark.slow
def test_batches_may_come_in_any_order(many):
    dataset = image_files(many / "*/*", CLASSES, (1, 1), batch_size=32, num_epochs=2, deterministic=False)()
    assert dataset.options().deterministic is False and int(dataset.cardinality()) == 3
    assert sorted(sum(order_of(dataset), [])) == sorted([*range(40), *range(40)])


@pytest.mark.slow
def test_an_estimator_makes_grayscale_images_rgb_on_the_device(mirrored, tmp_path):
    """Gray, color and gray batches; the last two are split over replicas together."""
    for index in range(9):
        write_image(tmp_path / "a" / f"{index}.jpeg", channels=3 if index in (4, 5) else 1, seed=index)
    input_fn = image_files(f"{tmp_path}/a/*", ["a"], (8, 8), batch_size=2, num_epochs=1)
    assert [images.shape[-1] for images, _ in input_fn.host_batches()] == [1, 1, 3, 1, 1]
    model = keras.Sequential([keras.layers.Flatten(input_shape=(8, 8, 3)), keras.layers.Dense(1, name="dense")])
    model.compile("sgd", "mse")
    config = et.RunConfig(train_distribute=mirrored(2), eval_distribute=mirrored(2))
    results = []
    for given in (input_fn, lambda: input_fn()):  # the latter leaves nothing to the device
        estimator = et.model_to_estimator(model, config=config)
        loss = estimator.train(given).evaluate(given)["loss"]
        results.append((loss, np.concatenate([example["dense"] for example in estimator.predict(given)])))
    assert results[0][0] == results[1][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("one_hot", [True, False])
def test_a_fingerprint_changes_with_the_width_of_the_labels(folder, one_hot):
    fingerprints = {
        image_files(folder / "*/*", labels, one_hot=one_hot).fingerprint() for labels in (CLASSES, [*CLASSES, "more"])
    }
    assert len(fingerprints) == (2 if one_hot else 1)


def make_special(path, kind):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"device": "/dev/zero", "broken link": path.parent / "nowhere"}[kind])


@pytest.mark.parametrize("listed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_is_no_regular_file_is_named_and_never_opened(folder, monkeypatch, listed):
    monkeypatch.chdir(folder)  # the path of a socket is short

    def files(pattern):
        return sorted(pathlib.Path().glob(pattern)) if listed else pattern

    kinds = ["broken link", "device", "folder", "pipe", "socket"]
    for kind in kinds:
        make_special(pathlib.Path(f"cat/{kind}.jpeg"), kind)
        with pytest.raises(ValueError, match=f"{kind}.jpeg is a directory, pipe, device or broken link.*pass on_error"):
            image_files(files(f"cat/{kind}.*"), CLASSES)
    make = image_files(files("*/*"), CLASSES, num_epochs=1, on_error="skip")
    assert sum(len(images) for images, _ in make()) == 6
    assert sorted(map(os.path.normpath, make.skipped)) == [f"cat/{kind}.jpeg" for kind in kinds]


@pytest.mark.parametrize("cache", [pytest.param(None, marks=pytest.mark.slow), "memory"])
def test_an_image_of_too_many_pixels_is_named_with_its_size(folder, cache):
    path = folder / "dog/c.png"
    header = b"IHDR" + struct.pack(">2I5B", 14000, 14001, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes(10**5))
    chunks = [header, b"IDAT" + data, b"IEND"]
    chunks = [struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        list(image_files(folder / "*/*", CLASSES, num_epochs=1, cache=cache)())
    assert str(path) in str(error.value)
    assert "its 14000 x 14001 pixels exceed 89478485; scale it down or pass on_error" in str(error.value)
    make = image_files(folder / "*/*", CLASSES, num_epochs=1, on_error="skip", cache=cache)
    assert sum(len(images) for images, _ in make()) == 5
    assert make.skipped == [str(path)]


@pytest.mark.parametrize("cache", [pytest.param(None, marks=pytest.mark.slow), "folder"])
def test_names_that_are_not_utf8_are_read_from_a_list(folder, tmp_path_factory, cache, warnings):
    whole, bad = (os.fsencode(folder / "cat") + name for name in (b"/\xff.jpeg", b"/\xfe.jpeg"))
    pathlib.Path(os.fsdecode(whole)).write_bytes((folder / "cat/a.jpeg").read_bytes())
    pathlib.Path(os.fsdecode(bad)).write_bytes(b"")
    paths = sorted(folder.glob("*/*"))
    options = {"num_epochs": 1, "cache": tmp_path_factory.mktemp("cache") if cache == "folder" else cache}
    make = image_files(paths, CLASSES, on_error="skip", **options)
    assert sum(len(images) for images, _ in make()) == 7
    assert make.skipped == [os.fsdecode(bad)]
    assert all(line.isascii() for line in warnings) and r"\udcfe.jpeg" in "".join(warnings)
    with pytest.raises(tf.errors.InvalidArgumentError, match="cat/.*jpeg.*cannot be decoded"):
        list(image_files(paths, CLASSES, **options)())


def test_a_pattern_that_matches_a_name_that_is_not_utf8_says_so(folder):
    pathlib.Path(os.fsdecode(os.fsencode(folder / "cat") + b"/\xff.jpeg")).write_bytes(b"")
    with pytest.raises(ValueError, match=r"cat/\\xff.jpeg', a name that is not UTF-8; rename it"):
        image_files(folder / "*/*", CLASSES)


def test_brackets_in_a_folder_of_a_pattern_are_read_as_they_are(folder):
    moved = folder / "data[1]"
    moved.mkdir()
    for label in CLASSES:
        (folder / label).rename(moved / label)
    (moved / "cat" / "a.jpeg").rename(moved / "cat" / "scan[1].jpeg")
    paths = image_files(f"{moved}/*/*", CLASSES).paths
    assert len(paths) == 6 and [path for path in paths if path.endswith(b"cat/scan[1].jpeg")]


def test_a_file_takes_at_most_200_bytes_of_memory(folder):
    original = next(folder.glob("cat/*"))
    for number in range(5000):
        os.link(original, folder / "cat" / f"scan-of-a-patient-{number}.jpeg")
    tracemalloc.start()
    try:
        make = image_files(folder / "*/*", CLASSES, num_epochs=1)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(make.paths) > 5000
    # One pattern's matches come as strings at once.
    assert kept / len(make.paths) < 200 and most / len(make.paths) < 600


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_size_below_one_is_refused(folder, batch_size):
    with pytest.raises(ValueError, match=f"batch_size must be at least 1, got {batch_size}"):
        image_files(folder / "*/*", CLASSES, batch_size=batch_size)


def test_prefetching_of_features_is_refused_instead_of_dropped(folder):
    with pytest.raises(ValueError, match="leave out prefetch_buffer_size"):
        image_files(folder / "*/*", CLASSES, prefetch_buffer_size=2, cache="features")
