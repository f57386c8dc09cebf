"""Which private names a plain model of each kind needs, by the functions of private_*.py that look them up."""

import importlib
import inspect
from pathlib import Path

import estimator_train as et  # before TensorFlow, as users have it

# isort: split
import pytest
import tensorflow as tf
import tf_keras

from estimator_train._engine.libraries import MissingNameError

v1 = tf.compat.v1

PACKAGE = Path(et.__file__).parent


def public_functions():
    """Returns the public functions of all private_*.py, and of their classes, by path; a new one is among them."""
    found = {}
    for path in sorted(PACKAGE.rglob("private_*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        # tf_slim's is looked up when tf.contrib is imported, and tf-slim has had its last release.
        if path.stem == "private_tf_slim":
            continue
        module = importlib.import_module(f"estimator_train.{name}")
        own = {key: value for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        classes = [value for key, value in own.items() if inspect.isclass(value) and not key.startswith("_")]
        for members in [own, *map(vars, classes)]:
            for key, value in members.items():
                if inspect.isfunction(value) and not key.startswith("_"):
                    found[f"{name}.{key}"] = value
    return found


def functions_of(module, names):
    return {f"{module}.{name}" for name in names.split()}


FUNCTIONS = public_functions()
EVERY = {
    *functions_of("_engine.checkpoints.private_tensorflow", "listeners set_listeners"),
    *functions_of("_engine.session.private_tensorflow", "global_step_read last_step set_timer share_event_writer"),
}
EITHER_KERAS = {
    *EVERY,
    *functions_of("_engine.checkpoints.private_keras", "without_optional_parts"),
    *functions_of("_engine.checkpoints.private_tensorflow", "forget_values_to_come leave_out_of_checkpoints"),
    *functions_of("_engine.keras.private_keras", "compile_arguments"),
    *functions_of("_engine.keras.private_tensorflow", "timestamp unchecked with_autograph"),
    *functions_of("_engine.keras.tf_keras.private_tf_keras", "eager_classes"),
    *functions_of("_engine.session.private_tensorflow", "eager_mode"),
}
EITHER_GRAPH = {
    *EVERY,
    *functions_of("_engine.graph.private_tensorflow", "averaging_losses run_after"),
    *functions_of("_engine.graph.private_tf_keras", "running_in"),
}
NEEDED = {
    "tf_keras": {
        *EITHER_KERAS,
        *functions_of("_engine.keras.tf_keras.private_tf_keras", "hyperparameters losses_without_inputs"),
        *functions_of("_engine.keras.tf_keras.private_tf_keras", "nodes_by_depth random_generators save_all_parts"),
    },
    "keras3": {
        *EITHER_KERAS,
        *functions_of("_engine.keras.keras3.private_keras3", "compute_output_spec optimizer_variables"),
        *functions_of("_engine.keras.keras3.private_keras3", "parts_of_optimizer sublayers"),
    },
    "model_fn": EITHER_GRAPH,
    "canned": {
        *EITHER_GRAPH,
        *functions_of("_engine.graph.private_tensorflow", "forget_gradients set_loss_averaged"),
        *functions_of("canned.private_tensorflow", "column_cache column_state"),
        *functions_of("canned.private_tensorflow", "dense_column_class feature_column_class"),
    },
}


def keras_model(keras, config):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    return et.model_to_estimator(model, config=config)


def model_fn(features, labels, mode):
    predictions = v1.layers.dense(features["x"], 1)
    loss = v1.losses.mean_squared_error(labels, predictions)
    train_op = v1.train.AdamOptimizer().minimize(loss, v1.train.get_global_step())
    return et.EstimatorSpec(mode, predictions, loss, train_op)


def estimator(kind, config):
    if kind == "model_fn":
        return et.Estimator(model_fn, config=config)
    if kind == "canned":
        return et.LinearRegressor([tf.feature_column.numeric_column("x")], config=config)
    return keras_model(tf_keras if kind == "tf_keras" else importlib.import_module("keras"), config)


def train(kind, path):
    def input_fn():
        x = tf.ones([2, 1])
        return tf.data.Dataset.from_tensors((x if "keras" in kind else {"x": x}, x))

    estimator(kind, et.RunConfig(str(path))).train(input_fn, steps=1)


def gone(*_, **__):
    return object().a_private_name


@pytest.fixture
def take_away(monkeypatch):
    """Gives a function that makes private functions end with an AttributeError, wherever they have been imported."""

    def take(names):
        for function in map(inspect.unwrap, (FUNCTIONS[name] for name in names)):
            code = function.__code__
            raises = gone.__code__.replace(co_filename=code.co_filename, co_name=code.co_name)
            monkeypatch.setattr(function, "__code__", raises)

    return take


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_lost_private_name_is_one_line(name, take_away):
    take_away([name])
    with pytest.raises(MissingNameError, match="^.* has lost a private name that is needed here .*pip install '.*$"):
        FUNCTIONS[name](None).__enter__()


@pytest.mark.parametrize("kind", NEEDED)
def test_a_plain_model_needs_no_other_private_names(kind, take_away, tmp_path):
    take_away(FUNCTIONS.keys() - NEEDED[kind])
    train(kind, tmp_path)


# The first ends each training early.
FAST = {"tf_keras": "compile_arguments", "keras3": "sublayers", "model_fn": "run_after", "canned": "column_cache"}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=[] if name.endswith(f".{FAST[kind]}") else pytest.mark.slow)
        for kind, names in NEEDED.items()
        for name in sorted(names)
    ],
)
def test_training_without_a_needed_private_name_ends_in_one_line(kind, name, take_away, tmp_path):
    take_away([name])
    with pytest.raises(MissingNameError) as raised:
        train(kind, tmp_path)
    text = str(raised.value)
    assert "\n" not in text
    assert "has lost a private name" in text and "pip install" in text
    assert any(module.__version__ in text for module in (tf, tf_keras, importlib.import_module("keras")))
