"""RunConfig(resume_input=True): training continues in the data where the checkpoint's training stopped."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import Fetched
from records import write_records

import estimator_train as et
from estimator_train import input_fns
from estimator_train.app import datasets

NUMBER = 24  # of examples


def recording_model(seen):
    """Builds a model whose training notes the numbers of the examples that it takes, which are their features."""

    class Recording(keras.layers.Layer):
        def call(self, inputs, training=None):
            if training:
                tf.numpy_function(lambda x: seen.extend(x.ravel().astype(int).tolist()), [inputs], [])
            return inputs / NUMBER

    def build():
        model = keras.Sequential([Recording(input_shape=(1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    return build


@pytest.fixture
def trained(tmp_path, mirrored):
    """Trains on an input_fn in a new Estimator, and returns the numbers of the examples that it was trained on."""

    def train(input_fn, replicas=None, **options):
        seen = []
        steps = {name: options.pop(name) for name in ("steps", "hooks") if name in options}
        options = {"train_distribute": mirrored(replicas), "resume_input": True} | options
        quiet = {"log_step_count_steps": None, "save_summary_steps": None, "checkpoint_save_graph_def": False}
        config = et.RunConfig(str(tmp_path / "run"), **quiet, **options)
        et.model_to_estimator(recording_model(seen), config=config).train(input_fn, **steps)
        return seen

    return train


def numbers(**options):
    return input_fns.arrays(np.arange(NUMBER, dtype="float32")[:, np.newaxis], np.zeros((NUMBER, 1)), **options)


def examples(first=0, epoch=0):
    """One epoch of a generator that is asked for its examples from one on."""
    order = np.random.default_rng(epoch).permutation(NUMBER)
    yield from (([float(number)], [0.0]) for number in order[first:])


def counted(**options):
    signature = (tf.TensorSpec([1]), tf.TensorSpec([1]))
    return input_fns.generator(examples, output_signature=signature, elements_per_epoch=NUMBER, **options)


def from_dataset(batch_size, num_epochs, parts=1):
    """An input_fn of the user's own."""
    rows = tf.range(NUMBER, dtype=tf.float32)[:, tf.newaxis]
    return lambda: tf.data.Dataset.from_tensor_slices((rows, rows * 0)).repeat(num_epochs).batch(batch_size)


@pytest.mark.slow
@pytest.mark.parametrize("make", [numbers, counted, from_dataset])
def test_training_in_two_goes_takes_the_examples_that_it_takes_in_one(make, trained):
    in_one = [number for batch in _labels(make(batch_size=5, num_epochs=2)()) for number in batch]
    first = trained(make(batch_size=5, num_epochs=2), steps=4)
    assert first == in_one[:20]
    assert first + trained(make(batch_size=5, num_epochs=2)) == in_one


@pytest.mark.slow
def test_each_example_comes_once_after_doubling_batch_and_replicas(trained):
    make = {"shuffle": True, "seed": 3, "num_epochs": 1}
    first = trained(numbers(batch_size=2, **make), steps=3)
    second = trained(numbers(batch_size=4, **make), replicas=2)
    assert len(first) == 6 and sorted(first + second) == list(range(NUMBER))


@pytest.mark.slow
def test_three_epochs_stopped_three_times_give_every_example_three_times(trained):
    make = {"shuffle": True, "num_epochs": 3, "batch_size": 5}  # without a seed: the run keeps the one that is drawn
    seen = [trained(numbers(**make), steps=steps) for steps in (2, 5, 3, None)]
    everything = sum(seen, [])
    epochs = [everything[begin : begin + NUMBER] for begin in range(0, 3 * NUMBER, NUMBER)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(NUMBER))] * 3
    assert len(everything) == 3 * NUMBER and epochs[0] != epochs[1]


@pytest.mark.slow
def test_steps_of_several_batches_and_calls_of_several_steps_are_counted(trained):
    make = {"batch_size": 2, "num_epochs": 1}
    first = trained(numbers(**make), steps=3, accumulate_steps=2, steps_per_loop=2)
    assert first == list(range(12))
    assert trained(numbers(**make), replicas=2, accumulate_steps=3) == list(range(12, NUMBER))


@pytest.mark.slow
@pytest.mark.parametrize("size", [None, 2])
def test_batches_with_none_in_them_are_resumed(size, trained):
    def without_weights():
        data = from_dataset(2, 1)().map(lambda x, y: (x, y, None))
        return data if size else data.filter(lambda *parts: True).map(lambda x, y, _: (x[: tf.size(x)], y, None))

    assert trained(without_weights, steps=2) + trained(without_weights, steps=2) == list(range(8))


@pytest.mark.parametrize("make", [from_dataset, pytest.param(numbers, marks=pytest.mark.slow)])
def test_a_recovered_session_resumes_from_its_checkpoint(make, trained):
    class Fails(et.SessionRunHook):
        calls = 0

        def before_run(self, run_context):
            self.calls += 1
            if self.calls == 4:
                raise tf.errors.AbortedError(None, None, "as if a machine were gone")

    seen = trained(make(batch_size=3, num_epochs=1), hooks=[Fails()], save_checkpoints_steps=2)
    assert seen == [*range(9), *range(6, NUMBER)]  # the checkpoint of step 2 knows of 6 examples


@pytest.mark.slow
def test_without_resume_input_every_train_call_starts_its_input_fn_anew(trained):
    make = {"batch_size": 4, "num_epochs": 1}
    assert [trained(numbers(**make), steps=1, resume_input=False) for _ in range(2)] == [[0, 1, 2, 3]] * 2
    assert trained(numbers(**make), steps=1) == [8, 9, 10, 11]  # the examples are counted all the same


@pytest.mark.slow
def test_a_checkpoint_without_a_count_of_examples_is_reported(trained, tmp_path, warnings):
    model = recording_model([])()
    model.train_on_batch(np.zeros((1, 1)), np.zeros((1, 1)))  # else the optimizer has no variables
    step = tf.Variable(7, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(root=model, estimator_global_step=step)
    tf.train.CheckpointManager(checkpoint, str(tmp_path / "run"), 1, checkpoint_name="model.ckpt").save(7)
    assert trained(numbers(batch_size=2), steps=1) == [0, 1]
    assert "does not record how many examples were trained on" in "".join(warnings)
    assert trained(numbers(batch_size=2), steps=1) == [2, 3]


def test_a_model_fn_has_no_input_to_resume(tmp_path):
    estimator = et.Estimator(lambda features: None, config=et.RunConfig(str(tmp_path), resume_input=True))
    with pytest.raises(ValueError, match="resume_input is for Keras models"):
        estimator.train(numbers(), steps=1)


@pytest.mark.slow
def test_frozen_features_resume_where_they_stopped(tmp_path):
    rows = {"batch_size": 6, "num_epochs": 1}

    def losses(name, *goes):
        keras.utils.set_random_seed(7)
        model = keras.Sequential([keras.layers.Dense(3, input_shape=(1,), trainable=False), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        hook = Fetched()
        for steps in goes:
            features = input_fns.frozen_features(numbers(**rows), 5, shuffle=True, seed=1)
            config = et.RunConfig(str(tmp_path / name), resume_input=True)
            et.model_to_estimator(model, config=config).train(features, [hook], steps=steps)
        return hook.values

    assert losses("one", 7) == losses("two", 3, 4)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A tfrecord dataset and one of image files whose images all differ."""
    folder = tmp_path_factory.mktemp("records")
    (folder / "labels.txt").write_text("cat\ndog\n")
    pixels = [np.full((1, 1, 3), number, np.uint8) for number in range(NUMBER)]
    for number, image in enumerate(pixels):
        directory = folder / "images" / ["cat", "dog"][number % 2]
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{number}.png").write_bytes(tf.io.encode_png(image).numpy())
    for side in ("train", "test"):
        write_records(folder / f"{side}.tfrecord", ((image, number % 2) for number, image in enumerate(pixels)))
    return folder


def of_images(records, **options):
    return input_fns.image_files(str(records / "images/*/*"), ["cat", "dog"], (1, 1), True, **options)


def of_records(records, **options):
    return datasets.open_dataset("tfrecord", str(records)).train_input_fn(image_size=(1, 1), **options)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "pipelines"), [(of_images, 2), (of_records, 1)])
def test_image_datasets_begin_at_any_example(make, pipelines, records):
    for pipeline in range(pipelines):
        context = tf.distribute.InputContext(pipelines, pipeline)
        input_fn = make(records, batch_size=1, num_epochs=3, seed=4)
        everything = _pixels(input_fn(context))
        for start in (5, NUMBER // pipelines, 2 * NUMBER // pipelines + 3):
            resumed = input_fn.starting_at(start * pipelines, seed=9)
            assert _pixels(resumed(context)) == everything[start:]
    assert sorted(everything[: len(everything) // 3]) == list(range(pipeline, NUMBER, pipelines)) or pipelines == 2


@pytest.mark.slow
def test_images_that_cannot_be_decoded_do_not_move_the_place_to_begin_at(records, tmp_path):
    (tmp_path / "cat").symlink_to(records / "images/cat")
    (tmp_path / "dog").mkdir()
    for number in range(4):
        (tmp_path / f"dog/bad{number}.png").write_bytes(b"")
    options = {"batch_size": 1, "num_epochs": 2, "seed": 4, "on_error": "skip"}
    input_fn = input_fns.image_files(str(tmp_path / "*/*"), ["cat", "dog"], (1, 1), True, **options)
    everything = _pixels(input_fn())
    assert len(everything) == NUMBER
    assert _pixels(input_fn.starting_at(7, seed=9)()) == everything[7:]


def _pixels(batches):
    return [round(float(image[0, 0, 0, 0]) * 255) for image, _ in batches]


def _labels(batches):
    return [features.numpy().ravel().astype(int).tolist() for features, _ in batches]
