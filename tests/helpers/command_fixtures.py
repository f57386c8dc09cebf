"""Runs the command in this process, and provides a run for it."""

import contextlib
import dataclasses
import io
import sys

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from PIL import Image

from estimator_train import distribution, input_fns, model_to_estimator
from estimator_train._engine.host import device_names
from estimator_train.app import models
from estimator_train.app.cli import main
from estimator_train.app.datasets.held_out import BY_NAME
from estimator_train.app.models import small_cnn
from estimator_train.app.running import plan
from estimator_train.app.runs import run_file
from estimator_train.app.runs.spec import Settings


@contextlib.contextmanager
def quick_small_cnn():
    """Replaces small_cnn by a model of one convolution, which is traced in half the time."""

    def build(image_size, head):
        model = keras.Sequential([keras.Input((*image_size, 3)), keras.layers.Conv2D(4, 3, 2, activation="relu")])
        for layer in (keras.layers.GlobalMaxPooling2D(), *head.layers()):
            model.add(layer)
        head.compile(model, keras.optimizers.Adam(2e-3))
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_cnn, "build", build)
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_models():
    with quick_small_cnn():
        yield


@pytest.fixture(autouse=True)
def named_devices(monkeypatch):
    """Gives the devices in plans the same names on every machine, which has no GPU."""
    monkeypatch.setattr(plan, "is_gpu_there", lambda: False)
    monkeypatch.setattr(device_names, "processor", lambda: "EPYC, 2 cores")
    monkeypatch.setattr(device_names, "gpu", lambda: None)


@pytest.fixture
def command(monkeypatch, capsys, tmp_path, mirrored, blank_plots):
    """Runs the command in `tmp_path` and returns its exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    # A process can have one default strategy of two replicas.
    monkeypatch.setattr(distribution, "cpu_replicas", lambda count, all_reduce=None: mirrored(count))
    level = tf.get_logger().level

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["estimator_train", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *capsys.readouterr()

    yield run
    tf.get_logger().setLevel(level)  # --quiet and --verbose change it


@pytest.fixture(scope="session")
def run_command():
    """Runs the command for a fixture that tests share, and returns its standard output."""

    def run(*arguments):
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as output:
            patch.setattr(sys, "argv", ["estimator_train", *map(str, arguments)])
            with pytest.raises(SystemExit) as end:
                main()
        assert not end.value.code
        return output.getvalue()

    return run


@pytest.fixture(scope="session")
def scans(tmp_path_factory):
    """A folder of 16 noisy images in two classes, one dark and one bright, JPEG and PNG."""
    folder = tmp_path_factory.mktemp("data") / "scans"
    rng = np.random.default_rng(3)
    for label, level in (("dark", 60), ("bright", 190)):
        (folder / label).mkdir(parents=True)
        for index in range(8):
            pixels = np.clip(rng.normal(level, 20, (40, 48)), 0, 255).astype("uint8")
            Image.fromarray(pixels).save(folder / label / f"{index}.{'png' if index == 7 else 'jpeg'}")
    return folder


@pytest.fixture(scope="session")
def settings(scans):
    """The settings of a run of small_cnn on `scans`."""
    return Settings(
        dataset="images", data_dir=str(scans), input_fn=None, eval_input_fn=None, model="small_cnn", weights=None,
        image_size=(24, 32), class_names=("bright", "dark"), batch_size=4, seed=1,
        held_out_by=BY_NAME,
    )  # fmt: skip


@pytest.fixture(scope="session")
def trained(settings, scans, tmp_path_factory):
    """The Estimator of such a run, with the checkpoints of steps 0, 6 and 12."""
    folder = str(tmp_path_factory.mktemp("runs") / "scans")
    run_file.save(folder, dataclasses.asdict(settings))
    keras.utils.set_random_seed(1)  # some random weights see a difference between a JPEG and a PNG
    with quick_small_cnn():
        model = models.build_model("small_cnn", image_size=settings.image_size, num_classes=2)
    estimator = model_to_estimator(model, model_dir=folder)
    input_fn = input_fns.image_files(f"{scans}/*/*", settings.class_names, settings.image_size, True, 4, seed=1)
    return estimator.train(input_fn, max_steps=6).train(input_fn, max_steps=12)


OWN_CODE = """
import tensorflow as tf
import tf_keras as keras

def data(slope):
    x = tf.ones([1, 1])
    return tf.data.Dataset.from_tensors((x, slope * x))

def train_input_fn():
    return data(2.0).repeat()

def eval_input_fn():
    return data(1.0)

def build():
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(1,))])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model
"""


@pytest.fixture
def own_flags(tmp_path):
    """Flags for a model that overshoots its best loss on the evaluation data.

    The losses at steps 2, 4, ... are 0.384, 0.097, 0.004, 0.019, 0.092, ...; step 6 is best.
    """
    (tmp_path / "own.py").write_text(OWN_CODE)
    functions = {"input-fn": "train_input_fn", "eval-input-fn": "eval_input_fn", "model": "build"}
    return [part for flag, name in functions.items() for part in (f"--{flag}", f"own.py:{name}")]
