"""Training over frozen features is training: the same losses and checkpoints, with the frozen layers run once."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import Fetched
from PIL import Image

import estimator_train as et
from estimator_train import input_fns
from estimator_train._engine.host import progress_bar
from estimator_train._engine.input_fns.frozen_features import FrozenFeatures, frozen_features
from estimator_train._engine.keras import device_rows

layers = keras.layers
CLASSES = ["ill", "well"]
WEIGHT = "layer_with_weights-1/kernel/.ATTRIBUTES/VARIABLE_VALUE"


def build():
    """Builds the same model each time: a nested model with only its last layer trained, and a head."""
    keras.utils.set_random_seed(1)
    base = keras.Sequential(
        [
            layers.Conv2D(4, 3, activation="relu", input_shape=(8, 8, 3)),
            layers.BatchNormalization(),
            layers.Conv2D(4, 3, kernel_regularizer="l2"),
            layers.Conv2D(4, 3, name="tuned"),
        ]
    )
    for layer in base.layers[:-1]:
        layer.trainable = False
    head = [layers.Flatten(), layers.Dense(2, "softmax", kernel_regularizer="l2")]
    model = keras.Sequential([keras.Input((8, 8, 3)), layers.Rescaling(2.0), base, *head])
    model.compile(keras.optimizers.Adam(0.02), "categorical_crossentropy", metrics=["accuracy"])
    return model


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """A glob pattern for 22 files in two classes."""
    folder = tmp_path_factory.mktemp("scans")
    rng = np.random.default_rng(4)
    for index in range(22):
        path = folder / CLASSES[index % 2] / f"{index}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (9, 9, 3)).astype("uint8")).save(path)
    return str(folder / "*" / "*.png")


def images(scans, **kwargs):
    return input_fns.image_files(scans, CLASSES, (8, 8), **kwargs)


def train(model_dir, input_fn, strategy=None, **kwargs):
    hook = Fetched(["loss:0", "accuracy:0"])
    estimator = et.model_to_estimator(build(), model_dir=model_dir, config=et.RunConfig(train_distribute=strategy))
    estimator.train(input_fn, hooks=[hook], **kwargs)
    return estimator, np.array(hook.values)


ORDER = {"batch_size": 4, "num_epochs": 2, "shuffle": True, "seed": 3}


def cached(scans):
    return frozen_features(images(scans, batch_size=5, num_epochs=1), **ORDER)


@pytest.mark.slow
def test_losses_evaluation_and_checkpoints_are_those_of_training_without(scans, tmp_path):
    without, expected = train(tmp_path / "without", images(scans, **ORDER))
    over, values = train(tmp_path / "over", cached(scans))
    assert len(values) == 11
    np.testing.assert_allclose(values, expected, atol=1e-5)
    evaluation = images(scans, num_epochs=1)
    assert over.evaluate(evaluation) == pytest.approx(without.evaluate(evaluation), abs=1e-5)

    names = over.get_variable_names()
    assert names == without.get_variable_names()
    assert any("optimizer" in name for name in names)
    for name in names:
        if not name.startswith("_CHECKPOINTABLE"):
            ours, theirs = over.get_variable_value(name), without.get_variable_value(name)
            np.testing.assert_allclose(ours, theirs, atol=1e-5, err_msg=name)

    # It continues from the other's checkpoint.
    expected = without.evaluate(images(scans, **ORDER), steps=1)["loss"]
    _, ((loss, _),) = train(tmp_path / "without", cached(scans), steps=1)
    assert loss == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_two_replicas_share_the_features(scans, mirrored, tmp_path):
    _, expected = train(tmp_path / "without", images(scans, **ORDER), mirrored(2))
    _, values = train(tmp_path / "over", cached(scans), mirrored(2))
    assert len(values) == 6
    np.testing.assert_allclose(values, expected, atol=1e-5)


def test_features_train_as_the_examples_do(tmp_path):
    examples = input_fns.arrays(np.eye(6, dtype="float32"), np.arange(6.0, dtype="float32")[:, None], batch_size=2)
    kernels = []
    for name, input_fn in (("without", examples), ("over", frozen_features(examples, batch_size=2, num_epochs=1))):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((6,)), layers.Dense(3, trainable=False), layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        config = et.RunConfig(tmp_path / name, save_summary_steps=None, checkpoint_save_graph_def=False)
        estimator = et.model_to_estimator(model, config=config).train(input_fn)
        assert estimator.get_variable_value("global_step") == 3
        names = [key for key in estimator.get_variable_names() if "kernel/" in key]
        kernels.append([estimator.get_variable_value(key) for key in names])
    for over, without in zip(*kernels, strict=True):
        np.testing.assert_allclose(over, without, atol=1e-6)
    assert not np.array_equal(kernels[0][1], model.get_weights()[2])


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_reads_the_features_where_they_fit_on_its_device(replicas, scans, mirrored, monkeypatch, tmp_path):
    sent, batches = [], FrozenFeatures.batches
    monkeypatch.setattr(FrozenFeatures, "batches", lambda *given: sent.append(batches(*given)) or sent[-1])
    monkeypatch.setattr(device_rows, "is_gpu", lambda device: True)
    losses, weights = [], []
    for free in (2 * 22 * 64 * 4 - 1, 2 * 22 * 64 * 4):  # 22 examples with features of 4 x 4 x 4, float32
        monkeypatch.setattr(device_rows.private_tensorflow, "free_bytes", lambda device, free=free: free)
        estimator, before = train(tmp_path / str(free), cached(scans), mirrored(replicas), max_steps=2)
        _, after = train(tmp_path / str(free), cached(scans), mirrored(replicas))
        losses.append([*before, *after])
        weights.append(estimator.get_variable_value(WEIGHT))
    types = [[part.dtype.name for part in tf.nest.flatten(dataset.element_spec)] for dataset in sent]
    assert types == [["float32", "float32"]] * 2 + [["int64", "float32"]] * 2
    np.testing.assert_array_equal(*losses)
    np.testing.assert_array_equal(*weights)


@pytest.mark.slow
def test_features_on_a_device_make_room_for_those_of_the_next_training(monkeypatch, tmp_path):
    def features(value):
        images, labels = np.full((4, 8, 8, 3), value, "float32"), np.eye(2, dtype="float32")[[0, 1, 0, 1]]
        return frozen_features(lambda: tf.data.Dataset.from_tensors((images, labels)), batch_size=2)

    monkeypatch.setattr(device_rows, "is_gpu", lambda device: True)
    weights = []
    for free in (0, 1e9):
        monkeypatch.setattr(device_rows.private_tensorflow, "free_bytes", lambda device, free=free: free)
        estimator = et.model_to_estimator(build(), model_dir=tmp_path / str(free))
        for value in (0.0, 1.0):
            estimator.train(features(value), steps=2)
        weights.append(estimator.get_variable_value(WEIGHT))
    np.testing.assert_array_equal(*weights)


@pytest.mark.gpu
def test_features_of_a_gpu_train_as_the_images_do(scans, gpus, tmp_path):
    _, expected = train(tmp_path / "without", images(scans, **ORDER), gpus(1))
    _, values = train(tmp_path / "over", cached(scans), gpus(1))
    np.testing.assert_allclose(values, expected, atol=1e-4)


@pytest.mark.slow
def test_further_training_of_an_estimator_fills_nothing(scans, log_lines, tmp_path):
    features = frozen_features(images(scans, num_epochs=1), batch_size=4, dtype="float16")
    estimator = et.model_to_estimator(build(), config=et.RunConfig(model_dir=tmp_path, steps_per_loop=5))
    estimator.train(features, max_steps=7)
    estimator.train(features, steps=2)
    assert estimator.get_variable_value("global_step") == 9
    (line,) = [line for line in log_lines if "Computing" in line]
    assert "float16[4, 4, 4], float32[2] each, 0.0 MB" in line


@pytest.fixture(scope="module")
def estimator(tmp_path_factory):
    return et.model_to_estimator(build(), model_dir=tmp_path_factory.mktemp("run"))


def test_it_is_for_training_a_keras_model(scans, estimator):
    features = frozen_features(images(scans, num_epochs=1))
    with pytest.raises(ValueError, match="pass an input_fn of the examples to evaluate, predict and other models"):
        estimator.evaluate(features)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (lambda: tf.data.Dataset.from_tensors(np.zeros((2, 8, 8, 3))).repeat(), "has no end: num_epochs=1"),
        (lambda: (np.zeros((2, 8, 8, 3)), np.zeros((2, 2))), "takes a tf.data.Dataset of batches"),
        (lambda: tf.data.Dataset.from_tensors(tf.ragged.constant([[1.0], []])), "batches of dense tensors, got"),
    ],
)
def test_examples_that_cannot_be_kept_are_refused(dataset, message, estimator):
    with pytest.raises(ValueError, match=message):
        estimator.train(frozen_features(dataset))


def test_layers_that_mix_the_examples_of_a_batch_are_refused():
    centred = layers.Lambda(lambda x: x - tf.reduce_mean(x, axis=0))
    model = keras.Sequential([keras.Input((3,)), centred, layers.Dense(3, trainable=False), layers.Dense(1)])
    model.compile("sgd", "mse")
    examples = input_fns.arrays(np.eye(3, dtype="float32"), np.zeros((3, 1), "float32"))
    with pytest.raises(ValueError, match="depend on its batch"):
        et.model_to_estimator(model).train(frozen_features(examples))


def test_the_pass_through_the_frozen_layers_is_shown_and_timed(scans, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress_bar, "_LINE_SECS", 0)
    estimator = et.model_to_estimator(build(), model_dir=tmp_path)
    timing, features = (
        et.TimingHook(tmp_path),
        frozen_features(images(scans, batch_size=4, num_epochs=1), batch_size=4, num_epochs=None),
    )
    estimator.train(features, hooks=[timing], steps=2)
    first = timing.summary()["features_seconds"]
    estimator.train(features, hooks=[timing], steps=1)  # it has the outputs
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("frozen layers, 0.0 MB: ")]
    assert [line.split(": ")[1].split(" ")[0] for line in lines] == [f"{done}/24" for done in (4, 8, 12, 16, 20, 22)]
    assert lines[0].endswith(" to go")
    (session,) = json.loads((tmp_path / "timing.json").read_text())["sessions"]
    assert 0 < session["features_seconds"] == first < session["whole_seconds"]
