"""A state is restored by one read of the checkpoint, wherever its variables come from."""

import shutil

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from runs import copy_as_of
from slow_cases import slow

import estimator_train as et
from estimator_train._engine.keras.adapter_choice import model_source
from estimator_train._engine.keras.model_state import EvaluationState, TrainingState

v1 = tf.compat.v1
QUIET = {"save_summary_steps": None, "checkpoint_save_graph_def": False}  # no test reads these files


class OwnStep(keras.Sequential):
    """Its optimizer's variables are unknown before its step is traced."""

    def train_step(self, data):
        features, labels = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(features, training=True) - labels) ** 2)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}


class TwoOptimizers(OwnStep):
    def compile(self):
        super().compile("sgd", "mse")
        self.optimizer = {"kernels": keras.optimizers.Adam(0.1), "biases": keras.optimizers.SGD(0.1, momentum=0.9)}

    def get_compile_config(self):
        return {}

    def compile_from_config(self, config):
        self.compile()

    def train_step(self, data):
        features, labels = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(features, training=True) - labels) ** 2)
        variables = self.trainable_variables
        pairs = list(zip(tape.gradient(loss, variables), variables, strict=True))
        self.optimizer["kernels"].apply_gradients(pairs[::2])
        self.optimizer["biases"].apply_gradients(pairs[1::2])
        return {"loss": loss}


class OwnStep3(keras3.Sequential):
    def train_step(self, data):
        features, labels = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(features, training=True) - labels) ** 2)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}


class Late(keras.layers.Layer):
    """Claims to be built, and creates its variable when it is called."""

    def call(self, inputs):
        if not hasattr(self, "scale"):
            self.scale = self.add_weight("scale", (), initializer="ones")
        return inputs * self.scale


def small(optimizer, kind=keras.Sequential, has_input=True, body=()):
    kerases = keras3 if issubclass(kind, keras3.Model) else keras
    shape = [kerases.Input((4,))] if has_input else []
    model = kind([*shape, *body, kerases.layers.Dense(3, name="out")])
    model.compile(*([] if optimizer is None else [optimizer, "mse"]))
    return model


_AVERAGES = {"use_ema": True, "ema_momentum": 0.8}


def nadam():
    """Returns an optimizer with all that Keras can keep beside slots: a cache, a schedule, averages and a scale."""
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 10)
    return keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Nadam(schedule, **_AVERAGES))


_MODELS = {
    "scaled nadam": lambda: small(nadam()),
    "scaled averages of Keras 3": lambda: small(
        keras3.optimizers.LossScaleOptimizer(keras3.optimizers.Adam(0.1, **_AVERAGES)), keras3.Sequential
    ),
    "legacy": lambda: small(keras.optimizers.legacy.Adam(0.1)),
    "v1": lambda: small(v1.train.MomentumOptimizer(0.1, 0.9)),
    "own step": lambda: small(keras.optimizers.Adam(0.1), OwnStep),
    "own step of Keras 3": lambda: small(keras3.optimizers.Adam(0.1), OwnStep3),
    "two optimizers": lambda: small(None, TwoOptimizers),
    "not built": lambda: small(keras.optimizers.Adam(0.1), has_input=False, body=[keras.layers.BatchNormalization()]),
    "not built of Keras 3": lambda: small(keras3.optimizers.Adam(0.1), keras3.Sequential, has_input=False),
}


@pytest.fixture
def reads(monkeypatch):
    """The paths of the checkpoints that are read from disk, in order."""
    found, read = [], tf.train.Checkpoint.read

    def noting(self, path, options=None):
        if not path.startswith("ram://"):  # the given model's state, which every copy gets
            found.append(path)
        return read(self, path, options)

    monkeypatch.setattr(tf.train.Checkpoint, "read", noting)
    return found


def estimator_of(build, folder, **config):
    keras.utils.set_random_seed(7)
    return et.model_to_estimator(build, config=et.RunConfig(str(folder), resume_input=True, **QUIET, **config))


def saved_values(path):
    reader = tf.train.load_checkpoint(str(path))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if name.endswith("VALUE") and "counter" not in name}


@pytest.fixture(scope="module", params=["scaled nadam", *(slow(name) for name in _MODELS if name != "scaled nadam")])
def trained(request, data, batches, tmp_path_factory):
    """A model's name, and the directory of a run of 4 steps with checkpoints of steps 2 and 4."""
    folder = tmp_path_factory.mktemp("trained")
    estimator_of(_MODELS[request.param], folder, save_checkpoints_steps=2).train(batches(data, 16), max_steps=4)
    return request.param, folder


def test_a_resumed_training_reads_its_checkpoint_once(trained, data, batches, reads, tmp_path):
    name, folder = trained
    run = copy_as_of(2, folder, tmp_path / "run")
    estimator_of(_MODELS[name], run).train(batches(data, 16), max_steps=4)
    assert reads == [str(run / "model.ckpt-2")]
    expected, found = (saved_values(each / "model.ckpt-4") for each in (folder, run))
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


@pytest.mark.parametrize(
    "trained",
    ["scaled nadam", pytest.param("not built", marks=pytest.mark.slow), slow("own step"), slow("not built of Keras 3")],
    indirect=True,
)
def test_an_evaluation_a_predictor_and_an_export_read_once(trained, data, batches, reads, tmp_path):
    name, folder = trained
    run, input_fn, x = shutil.copytree(folder, tmp_path / "run"), batches(data, 16), data[0][:16]
    estimator = estimator_of(_MODELS[name], run)
    path = estimator.latest_checkpoint()
    estimator.evaluate(input_fn)
    assert reads == [path]
    predictions = list(estimator.predict(lambda: tf.data.Dataset.from_tensors(x)))
    assert reads == [path]
    with estimator.predictor() as predictor:
        found = predictor(x)
        tf.io.gfile.rmtree(str(run))
        predictor(x.astype("float16"))  # another function of the same variables
    assert reads == [path, path]  # it has a state of its own
    for index, each in enumerate(predictions):
        for key, value in each.items():
            np.testing.assert_allclose(found[key][index], value, rtol=1e-6)


@pytest.mark.slow
def test_frozen_features_and_warm_starts_read_once(data, batches, reads, tmp_path):
    def build():
        return small(keras.optimizers.Adam(0.1), body=[keras.layers.Dense(5, trainable=False)])

    features = et.input_fns.frozen_features(batches(data, 16), batch_size=16)
    for last_step in (2, 4):
        estimator = estimator_of(build, tmp_path / "frozen")
        estimator.train(features, max_steps=last_step)
    assert len(reads) == 1
    path = estimator.latest_checkpoint()
    reads.clear()
    keras.utils.set_random_seed(7)
    warm = et.model_to_estimator(build, config=et.RunConfig(str(tmp_path / "warm")), warm_start_from=path)
    warm.train(features, max_steps=1)
    warm.train(features, max_steps=2)
    assert len(reads) == 1  # of its own first checkpoint


@pytest.mark.slow
def test_a_variable_that_a_built_layer_creates_late_is_read_again(data, batches, reads, tmp_path):
    """The one case of a second read: nothing tells before the trace that the model lacks a variable."""

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense, self.late = keras.layers.Dense(3), Late()
            self.dense.build((None, 4))
            self.late.built = self.built = True

        def call(self, inputs):
            return self.late(self.dense(inputs))

        def get_config(self):
            return {}

    def late():
        model = Model()
        model.compile(keras.optimizers.legacy.SGD(0.1), "mse")  # new optimizers refuse variables that come late
        return model

    input_fn = batches(data, 16)
    keras.utils.set_random_seed(7)
    first = et.model_to_estimator(late, config=et.RunConfig(str(tmp_path)))
    first.train(input_fn, max_steps=2)
    scale = [name for name in first.get_variable_names() if "scale" in name][0]
    trained = first.get_variable_value(scale)
    assert trained != 1
    reads.clear()
    again = et.model_to_estimator(late, config=et.RunConfig(str(tmp_path)))
    metrics = again.evaluate(input_fn)
    assert len(reads) == 2
    assert metrics == first.evaluate(input_fn)


@pytest.fixture(scope="module")
def source():
    return model_source(small(keras.optimizers.Adam(0.1)))


def test_a_state_starts_only_where_its_variables_can_return_to(source, tmp_path):
    strategy, config = tf.distribute.get_strategy(), et.RunConfig(str(tmp_path), resume_input=True)
    evaluation = EvaluationState(source, strategy, config)
    path = evaluation.checkpoint.write(str(tmp_path / "checkpoint"))
    assert evaluation.can_start_from(None) and evaluation.can_start_from(path)
    with evaluation.restored(path):
        pass
    assert evaluation.can_start_from(path) and not evaluation.can_start_from(None)
    assert (EvaluationState.role(None), EvaluationState.role(path)) == ("given", "checkpoint")

    training = TrainingState(source, strategy, config)
    with training.restored(None):
        pass
    assert training.can_start_from(None)
    training.begin_steps()
    own = training.checkpoint.write(str(tmp_path / "own"))
    assert training.can_start_from(own) and not training.can_start_from(None)
    assert not training.can_start_from(path)  # it has no slots, which would keep the values of this training
    assert TrainingState.role(None) == TrainingState.role(path) == "train"


def test_the_position_in_the_input_comes_before_the_other_variables(source, log_lines, tmp_path):
    strategy, config = tf.distribute.get_strategy(), et.RunConfig(str(tmp_path), resume_input=True)
    trained = TrainingState(source, strategy, config)
    with trained.restored(None):
        examples, seed = trained.input_position()
    assert examples == 0 and seed > 0
    trained.trained_examples.assign(48)
    trained.global_step.assign(3)
    trained.model.layers[0].kernel.assign_add(tf.ones_like(trained.model.layers[0].kernel))
    path = trained.checkpoint.write(str(tmp_path / "checkpoint"))
    resumed = TrainingState(source, strategy, config)
    with resumed.restored(path):
        assert resumed.input_position() == (48, seed)
    assert resumed.value_of(resumed.global_step) == 3
    np.testing.assert_array_equal(resumed.model.get_weights()[0], trained.model.get_weights()[0])
    assert not [line for line in log_lines if "does not record" in line]
    plain = TrainingState(source, strategy, et.RunConfig(str(tmp_path)))
    with plain.restored(path):
        assert plain.input_position() is None


@pytest.mark.parametrize("strategy", [tf.distribute.get_strategy, lambda: tf.distribute.OneDeviceStrategy("CPU:0")])
def test_an_evaluation_copies_the_training_that_has_just_saved(source, strategy, reads, tmp_path):
    config = et.RunConfig(str(tmp_path))
    trained = TrainingState(source, strategy(), config)
    with trained.restored(None):
        pass
    trained.model.layers[0].kernel.assign_add(tf.ones_like(trained.model.layers[0].kernel))
    path = trained.checkpoint.write(str(tmp_path / "checkpoint"))
    state = EvaluationState(source, strategy(), config)
    with state.restored(path, trained):
        pass
    assert reads == []
    np.testing.assert_array_equal(state.model.get_weights()[0], trained.model.get_weights()[0])


def test_a_state_and_no_config_gives_a_strategy_collective_ops_of_its_own():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    of_tensorflow = strategy.extended._collective_ops
    config = et.RunConfig(train_distribute=strategy)
    assert strategy.extended._collective_ops is of_tensorflow
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    TrainingState(model_source(model), strategy, config)
    assert strategy.extended._collective_ops is not of_tensorflow
