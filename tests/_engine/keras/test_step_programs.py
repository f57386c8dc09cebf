"""Steps in each mode, and the facts that programs state about their runs."""

import contextlib
import types

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import Fetched
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

import estimator_train as et
from estimator_train._engine.keras import loop
from estimator_train._engine.keras.adapter_choice import adapter_of
from estimator_train._engine.keras.loop import DevicesLoop, Loop, PredictionLoop, SingleSteps, kind_of_loop
from estimator_train._engine.keras.step_programs import EvaluationProgram, PredictionProgram, TrainingProgram, predict
from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.function_session import HookGraph

v1 = tf.compat.v1
X, Y = np.ones([4, 2], "float32"), np.zeros([4, 1], "float32")


def compiled(**arguments):
    model = keras.Sequential([keras.Input((2,), name="x"), keras.layers.Dense(1, "linear", name="y")])
    model.compile("sgd", "mse", **arguments)
    return model


def training(model, **options):
    examples, seed = tf.Variable(0, dtype=tf.int64), tf.Variable(5, dtype=tf.int64)
    adapter = adapter_of(model)
    draws = adapter.draws(model, examples, seed)
    return TrainingProgram(adapter, model, None, dict, examples, draws, **options)


def evaluation(model, *parts):
    return EvaluationProgram(adapter_of(model), model, None, dict, parts)


def step(program, batch):
    strategy = tf.distribute.get_strategy()

    @tf.function(autograph=False)
    def run(batch):
        return program.run_step(strategy, program.step, batch)

    return run(batch)


@pytest.mark.parametrize(
    "batch",
    [
        (X, Y, np.array([1, 1, 0, 0], "float32")),
        ({"features": X, "sample_weights": np.array([1, 1, 0, 0], "float32")}, Y),
    ],
)
def test_sample_weights_are_a_third_part_or_beside_the_features(batch):
    model = compiled()
    expected = model.test_on_batch(X, Y, sample_weight=np.array([1, 1, 0, 0], "float32"))
    program = evaluation(model)
    program.reset()
    logs, _ = step(program, tf.nest.map_structure(tf.constant, batch))
    assert float(logs["loss"]) == pytest.approx(expected, rel=1e-6)


def test_features_alone_do_not_suffice_for_a_compiled_loss():
    with pytest.raises(ValueError, match="Target data is missing: the model was compiled with loss=mse"):
        evaluation(compiled()).step(tf.constant(X))


def test_an_evaluation_returns_the_parts_that_metric_functions_take():
    model = compiled()
    _, parts = step(evaluation(model, "features", "labels", "predictions"), (tf.constant(X), tf.constant(Y)))
    np.testing.assert_array_equal(parts["features"], X)
    np.testing.assert_array_equal(parts["labels"], Y)
    np.testing.assert_allclose(parts["predictions"]["y"], model.predict_on_batch(X), rtol=1e-6)
    _, none = step(evaluation(model), (tf.constant(X), tf.constant(Y)))
    assert none == {}


def test_values_of_training_are_those_of_a_step_or_since_the_epoch_began():
    batches = [(tf.constant(X), tf.constant(Y + scale)) for scale in (0.0, 10.0)]
    for has_epochs in (False, True):
        model = compiled()
        model.optimizer.learning_rate.assign(0.0)
        program = training(model, has_epochs=has_epochs)
        program.reset()
        first, second = (float(step(program, batch)[0]["loss"]) for batch in batches)
        expected = float(tf.reduce_mean((model(X) - batches[1][1]) ** 2))
        assert second == pytest.approx((first + expected) / 2 if has_epochs else expected, rel=1e-5)


def test_changes_get_a_seed_from_the_position_of_the_training():
    seen = []

    def change(parts, seed):
        seen.append(seed)
        return parts[0] * 0, *parts[1:]

    model = compiled()
    program = training(model, changes=(change,))
    logs, _ = step(program, (tf.constant(X), tf.constant(Y)))
    assert float(logs["loss"]) == pytest.approx(float(tf.reduce_mean((model.layers[-1].bias - Y) ** 2)), abs=1e-4)
    assert {tuple(seed.shape) for seed in seen} == {(2,)}


def test_only_complete_steps_of_several_batches_count_as_trained_examples():
    program = training(compiled(), batches_per_step=3)
    for batches, trained in ((2, 8), (1, 12)):
        for _ in range(batches):
            program.add_examples(tf.constant(4, tf.int64))
        assert int(program.trained_examples) == trained - 4 * batches
        program.end_step()
        assert int(program.trained_examples) == trained


def test_a_dict_of_one_feature_fits_a_model_of_one_input_whatever_its_name():
    model = compiled()
    outputs = predict(adapter_of(model), model, model.predict_step, {"any": tf.constant(X)})
    assert list(outputs) == ["y"]
    program = PredictionProgram(adapter_of(model), model, lambda features: features * 2)
    predictions, _ = program.step((tf.constant(X), tf.constant(Y)))
    np.testing.assert_allclose(predictions["y"], model.predict_on_batch(X * 2), rtol=1e-6)


def test_programs_of_the_same_fields_are_equal_and_share_a_loop():
    model = compiled()
    assert evaluation(model, "labels") == evaluation(model, "labels") != evaluation(model)
    assert len({evaluation(model), evaluation(model)}) == 1
    assert training(model) == training(model) != training(model, jit_compile=True)


def test_programs_answer_what_their_runs_need():
    model = compiled()
    prediction = PredictionProgram(adapter_of(model), model, None)
    programs = training(model), evaluation(model), prediction
    assert [program.trains for program in programs] == [True, False, False]
    iterator, accumulates = iter(tf.data.Dataset.range(1)), training(model, batches_per_step=3)
    kinds = [[kind_of_loop(program, iterator, single) for program in programs] for single in (False, True)]
    assert kinds == [[Loop, Loop, PredictionLoop], [SingleSteps, SingleSteps, PredictionLoop]]
    assert kind_of_loop(accumulates, iterator, True) is Loop


@pytest.mark.parametrize(
    ("devices", "kind"), [(["CPU:0"], Loop), (["CPU:0", "CPU:1"], DevicesLoop), (["GPU:0"], DevicesLoop)]
)
def test_batches_that_a_strategy_reads_onto_its_devices_are_taken_there(devices, kind, monkeypatch):
    class Pretended(tf.distribute.MirroredStrategy):
        extended = types.SimpleNamespace(worker_devices=devices)
        num_replicas_in_sync = len(devices)

        def __init__(self):
            """Without GPUs, that of TensorFlow fails."""

    monkeypatch.setattr(loop, "strategy_of", lambda iterator: Pretended())
    assert kind_of_loop(training(compiled()), None, False) is kind


def test_the_spec_and_the_triggers_of_each_mode():
    model = compiled()
    scalar = tf.TensorSpec([], tf.float32)
    specs = {"mae": scalar, "loss": scalar, step_outputs.LEARNING_RATE: scalar}
    program, graph = training(model, has_epochs=True), HookGraph(specs)
    with graph.graph.as_default():
        spec = program.spec(graph, v1.train.Scaffold())
        assert len(v1.get_collection(v1.GraphKeys.SUMMARIES)) == 2  # mae and the learning rate
        assert v1.get_collection(step_outputs.RUN_OVER_EPOCHS) == [1]
    assert (spec.mode, spec.loss.op.name, spec.train_op) == (et.ModeKeys.TRAIN, "loss", graph.step_op)
    assert program.triggers(graph) == [graph.step_op]

    graph = HookGraph({"mae": scalar, "loss": scalar})
    with graph.graph.as_default():
        spec = evaluation(model).spec(graph, v1.train.Scaffold())
    assert spec.eval_metric_ops.keys() == {"mae", "loss"} and spec.mode == et.ModeKeys.EVAL

    program, graph = PredictionProgram(adapter_of(model), model, None), HookGraph({"y": tf.TensorSpec([None, 1])})
    with graph.graph.as_default():
        spec = program.spec(graph, v1.train.Scaffold())
    assert spec.predictions.keys() == {"y"} and program.triggers(graph) == [graph.values["y"]]

    graph = HookGraph({})
    with graph.graph.as_default(), pytest.raises(ValueError, match="must return at least one value"):
        evaluation(model).spec(graph, v1.train.Scaffold())


def test_a_loss_is_of_its_step_if_the_trace_creates_its_metric(tmp_path):
    class Sum(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")

        def call(self, features):
            return self.dense(features)

    def build():
        model = Sum()
        model(X)  # so that only the metric is missing
        model.compile(keras.optimizers.SGD(0.0), "mse")
        return model

    labels = tf.data.Dataset.from_tensors((X, Y)).concatenate(tf.data.Dataset.from_tensors((X, Y + 1)))
    hook = Fetched()
    estimator = et.model_to_estimator(build, config=et.RunConfig(str(tmp_path)))
    estimator.train(lambda: labels, hooks=[hook])
    assert hook.values == [4, 1]


def tagger(keras, by_xla):
    """Returns a model of masked sequences; each trace of its forward pass appends to `by_xla`."""

    class Noting(keras.layers.Layer):
        supports_masking = True

        def call(self, inputs):
            by_xla.append(GraphOrParentsInXlaContext(v1.get_default_graph()))
            return inputs

    keras.utils.set_random_seed(3)
    layers = [
        keras.layers.Embedding(9, 4, mask_zero=True),
        keras.layers.BatchNormalization(),
        Noting(),
        keras.layers.Dense(3, "softmax"),
    ]
    model = keras.Sequential([keras.Input((5,), dtype="int32"), *layers])
    model.compile(keras.optimizers.Adam(0.01, clipnorm=0.5), "categorical_crossentropy", metrics=["accuracy"])
    return model


def words():
    rng = np.random.default_rng(1)
    features = rng.integers(1, 9, (32, 5)) * (np.arange(5) < rng.integers(1, 6, (32, 1)))
    labels = np.eye(3, dtype="float32")[features % 3]
    return tf.data.Dataset.from_tensor_slices((features.astype("int32"), labels)).repeat(2).batch(4)


@pytest.mark.slow
def test_xla_trains_replicas_as_they_train_without_it(mirrored, tmp_path):
    sides = []
    for jit_compile in (False, True):
        by_xla, hook = [], Fetched(["loss:0", "accuracy:0"])
        config = et.RunConfig(
            tmp_path / str(jit_compile), 5, train_distribute=mirrored(2), jit_compile=jit_compile, accumulate_steps=2
        )
        estimator = et.model_to_estimator(tagger(keras3, by_xla), config=config)
        del by_xla[:]
        estimator.train(words, hooks=[hook])
        assert any(by_xla) == jit_compile
        names = [name for name in estimator.get_variable_names() if not name.startswith("_CHECKPOINTABLE")]
        sides.append((hook.values, {name: estimator.get_variable_value(name) for name in names}))
    (values, expected), (values_by_xla, weights) = sides
    np.testing.assert_allclose(values_by_xla, values, atol=1e-5)
    for name, value in expected.items():
        np.testing.assert_allclose(weights[name], value, atol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("device", [None, "CPU:0"])
def test_beside_a_gpu_xla_compiles_models_of_keras_3_where_fit_does(device, monkeypatch, tmp_path):
    gpu, there = types.SimpleNamespace(device_type="GPU"), tf.config.list_physical_devices
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: there(kind) + [gpu] * (kind is None))
    strategy = device and tf.distribute.OneDeviceStrategy(device)
    by_ours, by_fit = [], []
    estimator = et.model_to_estimator(tagger(keras3, by_ours), config=et.RunConfig(tmp_path, train_distribute=strategy))
    with strategy.scope() if device else contextlib.nullcontext():
        fitted = tagger(keras3, by_fit)
    del by_ours[:], by_fit[:]
    estimator.train(words, steps=1)
    fitted.fit(words().take(1), verbose=0)
    assert any(by_ours) == any(by_fit) == (device is None)


@pytest.mark.slow
def test_a_model_compiled_with_xla_trains_and_evaluates_on_replicas(mirrored, tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"], jit_compile=True)
    metrics = []
    for strategy in (mirrored(2), None):
        config = et.RunConfig(tmp_path / str(bool(strategy)), train_distribute=strategy, eval_distribute=strategy)
        batch = tuple(tf.constant(np.tile(part, (1 if strategy else 2, 1))) for part in (X, Y))
        estimator = et.model_to_estimator(model, config=config)
        estimator.train(lambda batch=batch: tf.data.Dataset.from_tensors(batch).repeat(), steps=2)
        metrics.append(estimator.evaluate(lambda batch=batch: tf.data.Dataset.from_tensors(batch).repeat(2)))
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-5)


@pytest.mark.parametrize("keras", [keras, keras3])
@pytest.mark.parametrize("settings", [{"jit_compile": True}, {}])
def test_a_compiled_step_leaves_no_variable_to_change_outside(keras, settings):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"], jit_compile=bool(settings))
    program = training(model, **settings)
    strategy, batch = tf.distribute.get_strategy(), (tf.constant(X), tf.constant(Y))
    program.build_variables(strategy, (tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1])))
    step = tf.function(lambda batch: program.run_step(strategy, program.step, batch), autograph=False)
    graph = step.get_concrete_function(batch).graph
    changes = [op.type for op in graph.get_operations() if op.op_def.is_stateful and "Assign" in op.type]
    assert bool(changes) != bool(settings)


def test_xla_over_replicas_needs_the_step_of_keras(mirrored, tmp_path):
    class Own(keras.Sequential):
        def train_step(self, data):
            return super().train_step(data)

    model = Own([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(
        model, config=et.RunConfig(tmp_path, train_distribute=mirrored(2), jit_compile=True)
    )
    message = r"jit_compile on 2 replicas needs Keras' own .*, but Own overrides train_step; train on one replica, or"
    with pytest.raises(ValueError, match=message):
        estimator.train(lambda: tf.data.Dataset.from_tensors((X, Y)))


@pytest.mark.parametrize("count", [pytest.param(count, marks=pytest.mark.gpu(count)) for count in (1, 2)])
@pytest.mark.parametrize("keras", [keras, keras3])
def test_xla_trains_gpus_as_they_train_without_it(keras, count, gpus, tmp_path):
    weights = []
    for jit_compile in (False, True):
        config = et.RunConfig(tmp_path / str(jit_compile), 5, train_distribute=gpus(count), jit_compile=jit_compile)
        estimator = et.model_to_estimator(tagger(keras, []), config=config).train(words)
        names = [name for name in estimator.get_variable_names() if "kernel" in name or "embeddings" in name]
        weights.append([estimator.get_variable_value(name) for name in names])
    for without, by_xla in zip(*weights, strict=True):
        np.testing.assert_allclose(by_xla, without, atol=1e-4)
