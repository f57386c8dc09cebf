"""image_files with a tf.data service: a dispatcher and two workers in a separate process, on loopback."""

import os
import socket

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import warm_python
from PIL import Image

import estimator_train as et
from estimator_train.input_fns import image_files

CLASSES = ["cat", "dog"]


SERVERS = """
import tensorflow as tf

service = tf.data.experimental.service
dispatcher = service.DispatchServer()
address = dispatcher.target.removeprefix("grpc://")
workers = [service.WorkerServer(service.WorkerConfig(dispatcher_address=address)) for _ in range(2)]
with open("answers", "w", buffering=1) as answers, open("questions") as questions:
    print(dispatcher.target, file=answers)
    for _ in questions:
        print(*[worker._num_tasks() for worker in workers], file=answers)
"""


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """The dispatcher's address, and a function that returns the number of tasks of each worker."""
    folder = tmp_path_factory.mktemp("servers")
    (folder / "servers.py").write_text(SERVERS)
    for pipe in ("questions", "answers"):
        os.mkfifo(folder / pipe)
    # A process can be killed; servers in this one would wait, at their end, for whatever still asks for data.
    process = warm_python.Popen([folder / "servers.py"], cwd=folder)
    with open(folder / "answers") as answers, open(folder / "questions", "w", buffering=1) as questions:

        def tasks():
            questions.write("\n")
            return [int(number) for number in answers.readline().split()]

        yield answers.readline().strip(), tasks
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Forty images of one pixel, twenty a class, told apart by their value."""
    folder = tmp_path_factory.mktemp("many")
    for i in range(40):
        path = folder / CLASSES[i // 20] / f"{i:02}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(tf.io.encode_png(np.full((1, 1, 1), i, np.uint8)).numpy())
    return folder


def values_of(images):
    return np.rint(np.asarray(images)[:, 0, 0, 0] * 255).astype(int).tolist()


def batches_of(dataset):
    return [values_of(images) for images, _ in dataset.as_numpy_iterator()]


def first_value(batch):
    return batch[0][0, 0, 0, 0]


def in_any_order(batches):
    return sorted(batches, key=lambda batch: batch[0])


@pytest.mark.slow
def test_workers_decode_the_batches_of_this_process_in_any_order(workers, many):
    service, tasks = workers
    before = tasks()
    there, here = (
        list(image_files(many / "*/*", CLASSES, (2, 3), False, 16, 2, service=address)().as_numpy_iterator())
        for address in (service, None)
    )
    assert tasks() == [number + 1 for number in before]
    for got, expected in zip(*(sorted(batches, key=first_value) for batches in (there, here)), strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, got, expected)


@pytest.mark.slow
def test_shuffle_gives_every_image_once_an_epoch_anew_by_the_seed(workers, many):
    def epochs(seed):
        make = image_files(many / "*/*", CLASSES, (1, 1), True, 16, 2, seed=seed, service=workers[0])
        batches = batches_of(make())
        assert [len(batch) for batch in batches] == [16] * 5
        return batches

    first = epochs(5)
    assert sorted(sum(first, [])) == sorted([*range(40), *range(40)])
    assert in_any_order(epochs(5)) == in_any_order(first)
    assert in_any_order(epochs(6)) != in_any_order(first)
    # One batch an epoch: the two epochs hold the same, in another order.
    one, other = batches_of(image_files(many / "*/*", CLASSES, (1, 1), True, 40, 2, service=workers[0])())
    assert sorted(one) == sorted(other) == list(range(40)) and one != other


@pytest.mark.slow
def test_without_num_epochs_the_data_has_no_end(workers, many):
    make = image_files(many / "*/*", CLASSES, (1, 1), batch_size=40, service=workers[0])
    assert batches_of(make().take(3)) == [list(range(40))] * 3


@pytest.mark.slow
def test_input_pipelines_share_the_files(workers, many):
    make = image_files(many / "*/*", CLASSES, (1, 1), True, batch_size=6, num_epochs=1, service=workers[0])
    datasets = [make(tf.distribute.InputContext(2, index, 2)) for index in range(2)]
    assert [sorted(sum(batches_of(dataset), [])) for dataset in datasets] == [
        list(range(0, 40, 2)),
        list(range(1, 40, 2)),
    ]


@pytest.mark.slow
def test_workers_decode_all_formats_but_tiff_which_they_name(workers, tmp_path):
    folder = tmp_path / "cat"
    folder.mkdir()
    kinds = ["png", "bmp", "gif", *(["webp"] if hasattr(tf.io, "decode_webp") else [])]
    for value, kind in enumerate(kinds):
        Image.fromarray(np.full((4, 4, 3), 50 * value, np.uint8)).save(folder / f"{value}.{kind}", lossless=True)
    batches = batches_of(image_files(folder / "*", CLASSES, (1, 1), num_epochs=1, service=workers[0])())
    assert batches == [[50 * value for value in range(len(kinds))]]
    Image.new("L", (4, 4)).save(folder / "4.tiff")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"4\.tiff.*cannot be decoded.*such as a TIFF"):
        list(image_files(folder / "*", CLASSES, (1, 1), num_epochs=1, service=workers[0])())


def test_damaged_files_are_left_out(workers, tmp_path, many):
    folder = tmp_path / "cat"
    folder.mkdir()
    for path in (many / "cat").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "04.png").write_bytes(b"not an image")
    make = image_files(folder / "*", CLASSES, (1, 1), False, 3, 1, on_error="skip", service=workers[0])
    batches = batches_of(make())
    assert sorted(sum(batches, [])) == [*range(4), *range(5, 20)]
    assert [len(batch) for batch in batches] == [3] * 6 + [1]
    assert make.skipped == [str(folder / "04.png")]


@pytest.mark.slow
def test_a_session_reads_from_it(workers, many):
    make = image_files(many / "*/*", CLASSES, (1, 1), batch_size=40, num_epochs=1, service=workers[0])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        images, _ = tf.compat.v1.data.make_one_shot_iterator(make()).get_next()
        assert values_of(session.run(images)) == list(range(40))


@pytest.mark.slow
def test_two_replicas_train_on_and_evaluate_every_image_once(workers, many, mirrored, tmp_path):
    model = keras.Sequential([keras.layers.Flatten(input_shape=(1, 1, 3)), keras.layers.Dense(2, "softmax")])
    model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    config = et.RunConfig(tmp_path, train_distribute=mirrored(2), eval_distribute=mirrored(2))
    estimator = et.model_to_estimator(model, config=config)
    estimator.train(image_files(many / "*/*", CLASSES, (1, 1), True, 4, num_epochs=1, service=workers[0]))
    there, here = (
        estimator.evaluate(image_files(many / "*/*", CLASSES, (1, 1), batch_size=7, num_epochs=1, service=service))
        for service in (workers[0], None)
    )
    assert there == pytest.approx(here, abs=1e-6)
    assert there["global_step"] == 5


@pytest.mark.parametrize(
    "address", ["localhost:5000", "grpc://localhost", "grpc://localhost:port", "grpc://:1", "grpc://localhost:1/", 5000]
)
def test_an_address_that_is_none_is_refused_at_once(many, address):
    with pytest.raises(ValueError, match=f'"grpc://host:port", got {address!r}'):
        image_files(many / "*/*", CLASSES, service=address)


@pytest.mark.slow
def test_a_service_that_is_not_there_is_one_error(many):
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        address = f"grpc://127.0.0.1:{taken.getsockname()[1]}"
        make = image_files(many / "*/*", CLASSES, service=address)
        with pytest.raises(ConnectionError, match=f"no tf.data service answers at {address} .*start its dispatcher"):
            make()
