"""Keras 3 models train, resume and evaluate as with Keras 3's own fit and evaluate."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from models import Fetched, assert_close, eagerly
from runs import copy_as_of

import estimator_train as et
from estimator_train._engine.keras import adapter_choice
from estimator_train._engine.keras.keras3.adapter import ADAPTER, _say_scalar
from estimator_train._engine.keras.keras3.private_keras3 import compute_output_spec

layers, optimizers = keras.layers, keras.optimizers


def dense_model(optimizer="adam", dropout=0.0, **compiled):
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(8, activation="tanh"),
            layers.Dropout(dropout),
            layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(optimizer, "categorical_crossentropy", metrics=["accuracy"], **compiled)
    return model


def estimator_of(model, folder, strategy=None, **config):
    config = et.RunConfig(folder, train_distribute=strategy, eval_distribute=strategy, **config)
    return et.model_to_estimator(model, config=config)


def test_a_keras_newer_than_those_tried_is_warned_of_once_and_runs(monkeypatch, warnings):
    monkeypatch.setattr(keras, "__version__", "3.99.0")
    monkeypatch.setattr(
        adapter_choice, "say_if_keras_is_new", functools.cache(adapter_choice.say_if_keras_is_new.__wrapped__)
    )
    for _ in range(2):
        et.model_to_estimator(dense_model())
    assert len([line for line in warnings if line.startswith("Keras 3.99.0 is newer than 3.")]) == 1


def trained_weights(estimator, model):
    """Returns the weights of the newest checkpoint, read by TensorFlow into a Keras 3 model."""
    checkpoint = tf.train.Checkpoint(model)
    checkpoint.read(estimator.latest_checkpoint()).assert_existing_objects_matched().expect_partial()
    return model.get_weights()


# test_resumed_optimizers.py has other optimizers.
@pytest.mark.slow
def test_training_and_evaluation_give_the_numbers_of_fit_and_evaluate(data, batches, tmp_path):
    def build():
        return dense_model(optimizers.Adam(optimizers.schedules.CosineDecay(0.05, 8)))

    model = build()
    estimator = estimator_of(model, tmp_path, steps_per_loop=4)
    estimator.train(batches(data, 16, epochs=4), max_steps=20)
    model.fit(batches(data, 16, epochs=4)().take(20), verbose=0, shuffle=False)
    assert_close(trained_weights(estimator, build()), model.get_weights(), 1e-7)
    ours = estimator.evaluate(batches(data, 20))
    assert ours.pop("global_step") == 20
    assert ours == pytest.approx(model.evaluate(batches(data, 20)(), verbose=0, return_dict=True), abs=1e-7)


def mean_of_squares(labels, predictions):
    return tf.reduce_mean(tf.square(labels - predictions))


class MeanOfSquares(keras.losses.Loss):
    def call(self, labels, predictions):
        return mean_of_squares(labels, predictions)


def line(loss, outputs=1):
    keras.utils.set_random_seed(3)
    given = keras.Input((4,))
    model = keras.Model(given, [layers.Dense(1, name=f"y{number}")(given) for number in range(outputs)])
    model.compile(optimizers.SGD(0.1), loss, metrics=[["mse"]] * outputs)
    return model


@pytest.mark.parametrize(("loss", "is_built"), [(mean_of_squares, True), (MeanOfSquares(), False)])
def test_a_scalar_loss_counts_once_on_replicas(loss, is_built, mirrored, caplog):
    _say_scalar.cache_clear()
    strategy, data = mirrored(2), (np.ones((3, 4), np.float32), np.ones((3, 1), np.float32))
    with strategy.scope():
        model = line(loss)
    if is_built:
        compute_output_spec(model.test_step, tuple(keras.KerasTensor(part.shape) for part in data))
    logs, gradients = ADAPTER.run_step(
        model, strategy, lambda data: (model.test_step(data), ADAPTER.gradients(model, data)[0]), data
    )
    assert float(logs["loss"]) == pytest.approx(float(logs["mse"]))
    with tf.GradientTape() as tape:
        alone = mean_of_squares(data[1], model(data[0]))
    expected = tape.gradient(alone, [weight.value for weight in model.trainable_variables])
    for found, right in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(
            strategy.reduce("sum", found, axis=None), strategy.experimental_local_results(right)[0], rtol=1e-6
        )
    said = [record.getMessage() for record in caplog.records if "returns a scalar" in record.getMessage()]
    assert len(said) == 1
    assert "in Keras 3's fit, it would count 2 times on 2 replicas" in said[0]
    assert "call" not in vars(loss)  # a loss may serve other models, too


@pytest.mark.slow
@pytest.mark.parametrize("accumulate_steps", [1, 2])
def test_scalar_losses_train_and_evaluate_alike_on_one_replica_and_two(
    data, batches, mirrored, accumulate_steps, tmp_path
):
    features = data[0]
    data = features, (features[:, :1] * 2 + 1, features[:, 1:2])
    metrics = []
    for replicas in (1, 2):
        config = {"accumulate_steps": accumulate_steps}
        model = line([mean_of_squares, "mse"], outputs=2)
        estimator = estimator_of(model, tmp_path / str(replicas), mirrored(replicas), **config)
        estimator.train(batches(data, 16 // replicas))
        metrics.append(estimator.evaluate(batches(data, 16 // replicas)))
    assert metrics[0].pop("global_step") == metrics[1].pop("global_step")
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-5)
    assert metrics[1]["loss"] == pytest.approx(metrics[1]["y0_mse"] + metrics[1]["y1_mse"], rel=1e-5)


def weighted_model():
    keras.utils.set_random_seed(3)
    scan, age = keras.Input((4,), name="scan"), keras.Input((1,), name="age")
    both = layers.BatchNormalization()(layers.Concatenate()([scan, age]))
    outputs = {
        "risk": layers.Dense(1, name="risk")(both),
        "kind": layers.Dense(3, activation="softmax", name="kind")(both),
    }
    model = keras.Model([scan, age], outputs)
    model.compile(
        optimizers.SGD(0.1),
        {"risk": keras.losses.Huber(), "kind": "categorical_crossentropy"},
        loss_weights={"risk": 0.3, "kind": 1.0},
        metrics={"kind": ["accuracy", keras.metrics.AUC(name="auc")]},
        weighted_metrics={"risk": [keras.metrics.MeanAbsoluteError(name="mae")]},
    )
    return model


@pytest.mark.slow
def test_weighted_evaluation_of_several_outputs_is_equal_on_replicas(data, mirrored, tmp_path):
    features = {"scan": data[0], "age": data[0][:, :1] * 2}
    labels = {"risk": data[0][:, 1:2], "kind": data[1]}
    weights = {"risk": np.linspace(0, 2, 96, dtype="float32"), "kind": np.linspace(1, 3, 96, dtype="float32")}

    def input_fn():
        return tf.data.Dataset.from_tensor_slices((features, labels, weights)).take(95).batch(12)

    model = weighted_model()
    expected = model.evaluate(input_fn(), verbose=0, return_dict=True)
    estimator = et.model_to_estimator(weighted_model, config=et.RunConfig(tmp_path / "1"))
    estimator.train(input_fn, steps=2)
    checkpoint = tf.train.get_checkpoint_state(tmp_path / "1").all_model_checkpoint_paths[0]
    for replicas in (None, 3):
        config = et.RunConfig(tmp_path / "1", eval_distribute=mirrored(replicas))
        ours = et.model_to_estimator(weighted_model, config=config).evaluate(input_fn, checkpoint_path=checkpoint)
        assert ours.pop("global_step") == 0
        if replicas == 3:  # Keras averages the outputs' losses over batches, not examples, and the last are smaller
            expected = {name: value for name, value in expected.items() if not name.endswith("_loss")}
        assert {name: ours[name] for name in expected} == pytest.approx(expected, rel=2e-6)
    prediction = next(estimator.predict(input_fn))
    assert {name: value.shape for name, value in prediction.items()} == {"risk": (1,), "kind": (3,)}


class Gan(keras.Model):
    """A model with two optimizers, a random generator and a metric that is not compiled, and without call()."""

    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential([keras.Input((3,)), layers.Dense(4), layers.Dropout(0.3)])
        self.critic = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
        self.random, self.fooled = keras.random.SeedGenerator(), keras.metrics.Mean(name="fooled")

    def compile(self, critic_optimizer, generator_optimizer):
        super().compile(metrics=["mae"])
        self.critic_optimizer, self.generator_optimizer = critic_optimizer, generator_optimizer

    def train_step(self, real):
        noise = keras.random.normal((tf.shape(real)[0], 3), seed=self.random)
        with tf.GradientTape(persistent=True) as tape:
            judged = self.critic(self.generator(noise, training=True))
            loss = tf.reduce_mean(judged) - tf.reduce_mean(self.critic(real))
            minus_loss = -loss
        for part, optimizer, minimized in (
            (self.critic, self.critic_optimizer, loss),
            (self.generator, self.generator_optimizer, minus_loss),
        ):
            gradients = tape.gradient(minimized, part.trainable_variables)
            optimizer.apply_gradients(zip(gradients, part.trainable_variables, strict=True))
        self.fooled.update_state(judged)
        return {"results": {"fooled": self.fooled.result()}, "loss": loss}


def gan():
    model = Gan()
    model.compile(optimizers.Adam(0.01), optimizers.Adam(0.02))
    return model


@pytest.mark.slow
def test_a_model_with_steps_of_its_own_resumes_as_if_never_stopped(data, batches, mirrored, tmp_path):
    def train(folder, seed, **config):
        keras.utils.set_random_seed(seed)
        config |= {"resume_input": True, "async_checkpoints": True}
        estimator = estimator_of(gan, folder, mirrored(2), **config)
        estimator.train(batches(data[0], 8, epochs=4), max_steps=5)
        reader = tf.train.load_checkpoint(estimator.latest_checkpoint())
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if "VALUE" in name}

    unbroken = train(tmp_path / "unbroken", 9, save_checkpoints_steps=2)
    copy = copy_as_of(2, tmp_path / "unbroken", tmp_path / "resumed")
    resumed = train(copy, 1, steps_per_loop=3)  # the seed no longer matters with a checkpoint
    assert len(resumed) == len(unbroken) > 10
    for name in unbroken.keys() - {"save_counter/.ATTRIBUTES/VARIABLE_VALUE"}:
        np.testing.assert_array_equal(resumed[name], unbroken[name], name)


def test_each_replica_draws_a_mask_of_its_own(mirrored):
    from estimator_train._engine.keras.adapter_choice import model_source

    with mirrored(2).scope():
        model = model_source(dense_model(dropout=0.5)).copy(mirrored(2))
    dropout = model.layers[1]

    @tf.function
    def masks():
        return mirrored(2).run(lambda: dropout(tf.ones([1, 64]), training=True))

    for _ in range(2):
        one, other = mirrored(2).experimental_local_results(masks())
        assert not np.array_equal(one, other)


class OwnSteps(keras.Model):
    """Overrides train_step and test_step, with its own metric and values without a metric."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.error = keras.metrics.MeanAbsoluteError(name="error")

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predictions = self(x, training=True)
            loss = 2.0 * self.compute_loss(y=y, y_pred=predictions)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.error.update_state(y, predictions)
        return {"loss": loss, "error": self.error.result()}

    def test_step(self, data):
        x, y = data
        self.error.update_state(y, self(x, training=False))
        return {"error": self.error.result(), "mean": tf.reduce_mean(y)}


def own_steps():
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4,))
    model = OwnSteps(inputs, layers.Dense(3, activation="softmax")(inputs))
    model.compile(optimizers.SGD(0.1), "categorical_crossentropy")
    return model


@pytest.mark.slow
def test_own_steps_are_used_and_their_metrics_are_those_of_all_replicas(data, batches, mirrored, tmp_path):
    results = []
    for replicas in (None, 2):
        estimator = estimator_of(own_steps(), tmp_path / str(replicas), mirrored(replicas))
        estimator.train(batches(data, 32 // (replicas or 1)))
        results.append(estimator.evaluate(batches(data, 32)))
    model = eagerly(own_steps())
    model.fit(*data, batch_size=32, shuffle=False, verbose=0)
    expected = model.evaluate(*data, batch_size=32, verbose=0, return_dict=True)
    assert results[0] == {"error": pytest.approx(expected["error"]), "mean": pytest.approx(1 / 3), "global_step": 3}
    assert results[1] == pytest.approx(results[0], rel=1e-6)


class ExtendedSteps(keras.Model):
    """Overrides train_step and test_step, which call those of Keras."""

    def train_step(self, data):
        return super().train_step(data)

    def test_step(self, data):
        logs = super().test_step(data)
        return {**logs, "twice": 2 * logs["loss"]}


@pytest.mark.slow
def test_own_steps_on_replicas_may_call_those_of_keras(data, mirrored, tmp_path):
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4,))
    outputs = {name: layers.Dense(3, activation="softmax", name=name)(inputs) for name in ("a", "b")}
    model = ExtendedSteps(inputs, outputs)
    model.compile("sgd", "categorical_crossentropy", metrics=dict.fromkeys(outputs, "accuracy"))
    batches = tf.data.Dataset.from_tensor_slices((data[0], dict.fromkeys(outputs, data[1]))).batch(16)
    estimator = estimator_of(model, tmp_path, mirrored(2))
    ours = estimator.train(lambda: batches).evaluate(lambda: batches)
    trained_weights(estimator, model)
    assert ours.pop("global_step") == 3 and ours["twice"] == 2 * ours["loss"]
    assert ours == pytest.approx(model.evaluate(batches, verbose=0, return_dict=True), rel=1e-6)


@pytest.mark.slow
def test_accumulated_batches_are_one_step(data, batches, mirrored, tmp_path):
    weights = []
    for replicas, steps in ((None, 1), (2, 3)):
        estimator = estimator_of(
            dense_model("adam"), tmp_path / f"{replicas} {steps}", mirrored(replicas), accumulate_steps=steps
        )
        estimator.train(batches(data, 48 // steps // (replicas or 1)), max_steps=2)
        weights.append(trained_weights(estimator, dense_model("adam")))
    assert_close(*weights, 1e-6)


class Subclassed(keras.Model):
    """A model with layers in a list, which TensorFlow does not track, and without variables before its first call."""

    def __init__(self):
        super().__init__()
        self.blocks = [layers.Dense(8, activation="tanh"), layers.BatchNormalization(), layers.Dropout(0.5)]
        self.head = layers.Dense(3, activation="softmax")

    def call(self, inputs, training=False):
        for block in self.blocks:
            inputs = block(inputs, training=training) if block.name.startswith("drop") else block(inputs)
        return self.head(inputs)


def subclassed():
    model = Subclassed()
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    return model


@pytest.mark.slow
@pytest.mark.parametrize("is_built", [False, True])
def test_subclassed_models_keep_the_layers_in_lists(is_built, data, batches, tmp_path):
    model = subclassed()
    if is_built:
        model(data[0])
    given = model.get_weights() if is_built else None
    estimator = estimator_of(model, tmp_path, save_checkpoints_steps=4)
    estimator.train(batches(data, 16), max_steps=6)
    results = estimator.evaluate(batches(data, 48))
    if is_built:
        assert_close(model.get_weights(), given, 0)

    # Another Estimator with a new model restores all of it.
    other = estimator_of(subclassed(), tmp_path)
    assert other.evaluate(batches(data, 48)) == results
    first = next(other.predict(batches(data, 48)))
    for estimator in (other, estimator_of(subclassed(), tmp_path)):  # the latter has made no variables yet
        exported = estimator.export_saved_model(tmp_path / "export", receiver)
        served = tf.saved_model.load(exported.decode()).signatures["serving_default"](x=data[0][:1])
        assert_close(served.values(), [[value] for value in first.values()], 1e-6)


def receiver():
    x = tf.compat.v1.placeholder(tf.float32, [None, 4])
    return et.export.TensorServingInputReceiver(x, {"x": x})


@pytest.mark.slow
def test_a_second_run_traces_nothing(data, batches, tmp_path):
    traced = []

    class Tracing(layers.Layer):
        def call(self, inputs):
            traced.append(inputs)
            return inputs

    model = keras.Sequential([keras.Input((4,)), Tracing(), layers.Dense(3)])
    model.compile("adam", "mse")
    estimator = estimator_of(model, tmp_path)

    def run():
        traced.clear()
        estimator.train(batches(data, 32), steps=1)
        estimator.evaluate(batches(data, 32))
        list(estimator.predict(batches(data, 32)))
        return len(traced)

    assert run() > 0
    assert run() == 0


@pytest.mark.slow
def test_hooks_run_in_train_and_evaluate_whose_export_takes_image_bytes(tmp_path):
    losses = Fetched()

    def image_receiver():
        encoded = tf.compat.v1.placeholder(tf.string, [None], name="image_bytes")
        decode = lambda image: tf.ensure_shape(tf.io.decode_png(image, 1), [4, 4, 1]) / 255  # noqa: E731
        images = tf.map_fn(decode, encoded, fn_output_signature=tf.float32)
        return et.export.TensorServingInputReceiver(tf.cast(images, tf.float32), {"image_bytes": encoded})

    images = np.random.default_rng(1).integers(0, 255, (16, 4, 4, 1)).astype("uint8")
    model = keras.Sequential(
        [keras.Input((4, 4, 1)), layers.Conv2D(2, 3), layers.Flatten(), layers.Dense(1, name="age")]
    )
    model.compile("adam", "mse", metrics=["mae"])
    estimator = et.model_to_estimator(model, model_dir=tmp_path)

    def input_fn():
        scaled = (images / 255).astype("float32")
        return tf.data.Dataset.from_tensor_slices((scaled, scaled.mean(axis=(1, 2)))).repeat(4).batch(8)

    metrics, exported = et.train_and_evaluate(
        estimator,
        et.TrainSpec(input_fn, max_steps=6, hooks=[losses]),
        et.EvalSpec(input_fn, steps=2, exporters=et.FinalExporter("final", image_receiver)),
    )
    assert metrics.keys() == {"loss", "mae", "global_step"} and metrics["global_step"] == 6
    assert len(losses.values) == 6
    served = tf.saved_model.load(exported[0].decode()).signatures["serving_default"](
        image_bytes=tf.stack([tf.io.encode_png(image) for image in images])
    )
    predicted = [prediction["age"] for prediction in estimator.predict(input_fn)][:16]
    np.testing.assert_allclose(served["age"], predicted, atol=1e-6)
    kept = estimator.predictor(predict_keys="age")((images / 255).astype("float32"))
    np.testing.assert_allclose(kept["age"], predicted, atol=1e-6)


def test_outputs_of_one_layer_are_numbered(tmp_path):
    inputs, head = [keras.Input((1,)), keras.Input((1,))], layers.Dense(1, kernel_initializer="ones", name="head")
    model = keras.Model(inputs, [head(each) for each in inputs])
    model.compile("sgd", "mse")
    one, two = tf.ones([1, 1]), tf.fill([1, 1], 2.0)
    estimator = estimator_of(model, tmp_path)
    assert list(estimator.predict(lambda: tf.data.Dataset.from_tensors(((one, two),)))) == [{"head": 1, "head_1": 2}]


class Count(keras.metrics.Metric):
    """Counts examples; its result is a dict of a variable and a tensor."""

    def __init__(self, **config):
        super().__init__(**config)
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(tf.cast(tf.shape(y_true)[0], tf.float32))

    def result(self):
        return {"count": self.total, "twice": 2 * self.total}


def test_a_metric_that_gives_its_variable_counts_all_replicas(mirrored, tmp_path):
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[Count()])
    batches = tf.data.Dataset.from_tensors((tf.ones([3, 1]), tf.ones([3, 1])))
    metrics = estimator_of(model, tmp_path, mirrored(2)).evaluate(lambda: batches)
    assert (metrics["count"], metrics["twice"]) == (3, 6)


@pytest.mark.slow
def test_a_frozen_model_may_accumulate_steps(tmp_path):
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1)])
    model.trainable = False
    model.compile("sgd", "mse")
    batches = tf.data.Dataset.from_tensors((tf.ones([3, 1]), tf.ones([3, 1])))
    estimator = estimator_of(model, tmp_path, accumulate_steps=2).train(lambda: batches)
    assert estimator.get_variable_value("global_step") == 1
