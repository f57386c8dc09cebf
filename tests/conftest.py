"""Two and three replicas are logical CPU devices; they and tf_keras must be asked for before TensorFlow starts."""

import gc
import io
import logging
import os
import re
import signal
import sys
import tempfile
import types

import estimator_train  # before TensorFlow, as users have it

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.pop("TF_CONFIG", None)
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="estimator_train-tests-")  # records of trusted runs

# isort: split
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import warm_python

from estimator_train._engine.distribution import strategies

gc.freeze()  # the garbage collector need not look through TensorFlow's modules again and again
gc.set_threshold(50_000)  # by default it takes a tenth of the time of tests: graphs are many objects that live long

# Each training writes graph.pbtxt: a tenth of a tiny one's time with protobuf's Python. Its C does not sort by key.
graph_io = sys.modules[tf.io.write_graph.__module__]
graph_io.text_format = types.SimpleNamespace(MessageToString=lambda message, **_: str(message))


# A process started in the background or by nohup ignores these signals, and so would the tests' processes.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config):
    """Makes three logical CPU devices, and hides GPUs from tests and their processes, unless `-m gpu` asks for them."""
    if config.option.markexpr == "gpu":
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # the processes of tests share the GPUs
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        tf.config.set_visible_devices([], "GPU")  # those that a test of this function pretends
    if any(line.startswith("error::DeprecationWarning") for line in config.getini("filterwarnings")):
        tf.get_logger().addHandler(_DeprecationsAreErrors(logging.WARNING))  # `.ci/matrix next` asks for it
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)


class _DeprecationsAreErrors(logging.Handler):
    """Raises what TensorFlow logs about deprecated functions that lines of the package call."""

    def emit(self, record):
        message = record.getMessage()
        if re.match(rf"From {re.escape(os.path.dirname(estimator_train.__file__))}/.* is deprecated", message):
            raise DeprecationWarning(message)


def pytest_runtest_setup(item):
    """Skips a test marked gpu where there are too few."""
    found = len(tf.config.list_physical_devices("GPU"))
    for marker in item.iter_markers("gpu"):
        wanted = marker.args[0] if marker.args else 1
        if found < wanted:
            pytest.skip(f"needs GPUs: {wanted}; TensorFlow sees {found}")


def pytest_unconfigure():
    warm_python.stop()


@pytest.fixture(scope="session")
def mirrored():
    """Gives the MirroredStrategy of a number of replicas; None for none."""
    strategies = {None: None}

    def strategy(replicas):
        if replicas not in strategies:
            devices = [f"CPU:{index}" for index in range(replicas)]
            # Collective ops, the default, allow one number of replicas per process; two replicas use them, as users do.
            reduction = None if replicas == 2 else tf.distribute.ReductionToOneDevice()
            strategies[replicas] = tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction)
        return strategies[replicas]

    return strategy


@pytest.fixture
def gpus():
    """Gives the MirroredStrategy of a number of GPUs, with products in float32 as on CPUs; for tests marked gpu."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    yield strategies.gpus
    tf.config.experimental.enable_tensor_float_32_execution(True)


@pytest.fixture
def graph():
    """A new graph, the default one."""
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture(autouse=True)
def seeded():
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)


@pytest.fixture(scope="session")
def data():
    """96 examples of 4 features in 3 classes, one-hot."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(96, 4)).astype("float32")
    return x, np.eye(3, dtype="float32")[(x[:, 0] > 0).astype(int) + (x[:, 1] > 0.3)]


@pytest.fixture(scope="session")
def batches():
    """Gives an input_fn over tensors, in order."""

    def make(tensors, batch_size, epochs=1):
        return lambda: tf.data.Dataset.from_tensor_slices(tensors).repeat(epochs).batch(batch_size)

    return make


@pytest.fixture(scope="session")
def classifier():
    """Gives a small compiled classifier."""

    def make(optimizer="adam", metrics=("accuracy",), **compile_args):
        model = keras.Sequential(
            [
                keras.layers.Dense(8, activation="tanh", input_shape=(4,)),
                keras.layers.Dense(3, activation="softmax"),
            ]
        )
        model.compile(optimizer, "categorical_crossentropy", metrics=list(metrics), **compile_args)
        return model

    return make


@pytest.fixture
def blank_plots(monkeypatch):
    """Spares reports plots and Grad-CAM, which take seconds; the tests of reports draw them."""
    from PIL import Image  # the library alone has none

    from estimator_train.app.running.reporting import Reporter  # matplotlib comes with it

    file = io.BytesIO()
    Image.new("RGB", (1, 1)).save(file, "png")
    drawn = "compared_curves confusion_matrix curves learning_rate reliability samples scaling scatter throughput"
    for name in drawn.split():
        monkeypatch.setattr(f"estimator_train.app.report.plots.{name}", lambda *values: file.getvalue())
    monkeypatch.setattr(Reporter, "_with_heat", lambda _, mistakes: mistakes)


@pytest.fixture
def log_lines():
    """The messages that TensorFlow's logger receives at INFO."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger, level = tf.get_logger(), tf.get_logger().level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def warnings():
    """The warnings of TensorFlow's logger, which does not propagate to pytest's handler."""
    lines = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())
    tf.get_logger().addHandler(handler)
    yield lines
    tf.get_logger().removeHandler(handler)
