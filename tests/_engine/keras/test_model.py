"""model_to_estimator computes what Keras computes, for every kind of model and optimizer, and loses nothing."""

import concurrent.futures
import gc
import importlib
import json
import time

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import Fetched, assert_close, eagerly

import estimator_train as et

layers = keras.layers


def estimator_of(model, tmp_path, strategy=None, **kwargs):
    quiet = {"save_checkpoints_steps": 1000, "save_summary_steps": None, "checkpoint_save_graph_def": False}
    config = et.RunConfig(train_distribute=strategy, eval_distribute=strategy, **quiet)
    return et.model_to_estimator(model, model_dir=tmp_path / "run", config=config, **kwargs)


def trained_weights(estimator, model):
    """Returns the weights of the newest checkpoint, loaded by Keras itself."""
    model.load_weights(estimator.latest_checkpoint()).expect_partial()
    return model.get_weights()


# Each family of optimizers sums the replicas' gradients differently. test_resumed_optimizers.py has the others.
@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.Adam(0.02, clipnorm=0.1),
        lambda: keras.optimizers.legacy.Adam(0.02),
        lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
    ],
    ids=["new", "legacy", "v1"],
)
def test_training_on_replicas_gives_the_weights_of_keras_fit(make, classifier, data, batches, mirrored, tmp_path):
    model = classifier(make(), metrics=())
    estimator = estimator_of(model, tmp_path, mirrored(2))
    estimator.train(batches(data, 16))

    eagerly(model).fit(batches(data, 32)(), verbose=0)  # Keras' batch is global, the Estimator's is per replica
    expected = model.get_weights()
    copy = classifier(make(), metrics=())
    assert_close(trained_weights(estimator, copy), expected, 1e-5)
    assert estimator.get_variable_value("estimator_global_step/.ATTRIBUTES/VARIABLE_VALUE") == 3


def test_v1_optimizer_gradient_is_not_divided_twice_on_two_replicas(mirrored, batches, tmp_path):
    model = keras.Sequential([layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(1,))])
    model.compile(tf.compat.v1.train.GradientDescentOptimizer(1.0), lambda y, p: -p)
    estimator = estimator_of(model, tmp_path, mirrored(2))
    x = np.arange(16, dtype="float32")[:, None]
    estimator.train(batches((x, x), 8), max_steps=1)
    assert trained_weights(estimator, model)[0] == pytest.approx(7.5)


def normalized_model():
    inputs = keras.Input((4,), name="scan")
    normalization = layers.Normalization()
    normalization.adapt(np.random.default_rng(1).normal(3, 2, (64, 4)).astype("float32"))
    x = layers.Dense(8, activation="relu")(normalization(inputs))
    x = layers.Dropout(0.3)(layers.BatchNormalization()(x))
    model = keras.Model(inputs, layers.Dense(3, activation="softmax", name="diagnosis")(x))
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    return model


@pytest.mark.slow
def test_conversion_keeps_statistics_exactly_and_the_given_model_unchanged(data, batches, tmp_path):
    model = eagerly(normalized_model())
    model.fit(*data, epochs=2, verbose=0)
    before, expected = [weight.copy() for weight in model.get_weights()], model.predict(data[0], verbose=0)
    model.run_eagerly = False

    estimator = estimator_of(model, tmp_path)
    rows = list(estimator.predict(batches(data, 40)))
    assert_close(np.stack([row["diagnosis"] for row in rows]), expected, 1e-6)

    # The checkpoint written before the first step holds the same bits.
    estimator.train(batches(data, 40), steps=1)
    first = tf.train.get_checkpoint_state(estimator.model_dir).all_model_checkpoint_paths[0]
    copy = normalized_model()
    copy.load_weights(first).expect_partial()
    for kept in (copy, model):
        for ours, given in zip(kept.get_weights(), before, strict=True):
            np.testing.assert_array_equal(ours, given)

    # The given model still works.
    np.testing.assert_array_equal(eagerly(model).predict(data[0], verbose=0), expected)
    model.fit(*data, verbose=0)


@pytest.mark.slow
def test_training_starts_from_the_given_optimizers_slots(classifier, data, batches, tmp_path):
    model = eagerly(classifier(metrics=()))
    model.fit(*data, batch_size=32, epochs=3, shuffle=False, verbose=0)
    model.run_eagerly = False
    estimator = estimator_of(model, tmp_path)
    estimator.train(batches(data, 32))
    eagerly(model).fit(*data, batch_size=32, shuffle=False, verbose=0)
    expected = model.get_weights()
    assert_close(trained_weights(estimator, classifier(metrics=())), expected, 1e-6)


class OwnSteps(keras.Model):
    """Overrides train_step and test_step, with its own metric and a Python number in the logs."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.error = keras.metrics.MeanAbsoluteError(name="error")

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predictions = self(x, training=True)
            loss = 2.0 * self.compiled_loss(y, predictions)
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        self.error.update_state(y, predictions)
        return {"loss": loss, "error": self.error.result(), "beta": 0.5}

    def test_step(self, data):
        x, y = data
        self.error.update_state(y, self(x, training=False))
        return {"error": self.error.result()}


def own_steps():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    model = OwnSteps(inputs, layers.Dense(3, activation="softmax")(inputs))
    model.compile(keras.optimizers.SGD(0.1), "categorical_crossentropy")
    return model


@pytest.mark.slow
def test_own_train_step_and_test_step_are_used_with_all_replicas_losses(data, batches, mirrored, tmp_path):
    model, hook, hook_of_two = own_steps(), Fetched(), Fetched()
    estimator = estimator_of(model, tmp_path)
    estimator.train(batches(data, 32), hooks=[hook])
    results = estimator.evaluate(batches(data, 32))
    estimator_of(own_steps(), tmp_path / "2", mirrored(2)).train(batches(data, 16), hooks=[hook_of_two])
    np.testing.assert_allclose(hook_of_two.values, hook.values, rtol=1e-5)
    eagerly(model).fit(*data, batch_size=32, shuffle=False, verbose=0)
    expected = model.evaluate(*data, batch_size=32, verbose=0, return_dict=True)
    assert results == {"error": pytest.approx(expected["error"], rel=1e-6), "global_step": 3}


class WithConditions(keras.Model):
    """Overrides steps with Python control flow on tensor values."""

    def _sign(self, x):
        if tf.reduce_sum(x) > 0:
            return 1.0
        return -1.0

    def train_step(self, data):
        return super().train_step(data) | {"sign": self._sign(data[0])}

    def test_step(self, data):
        return super().test_step(data) | {"sign": self._sign(data[0])}

    def predict_step(self, data):
        sign = self._sign(data[0])
        return super().predict_step(data) * sign


def test_steps_of_the_model_may_have_conditions_on_tensors(tmp_path):
    inputs = keras.Input((1,))
    model = WithConditions(inputs, layers.Dense(1, kernel_initializer="ones")(inputs))
    model.compile(keras.optimizers.SGD(0.0), "mse")
    estimator = estimator_of(model, tmp_path)

    def input_fn():
        return tf.data.Dataset.from_tensors(([[-2.0]], [[-2.0]]))

    estimator.train(input_fn)
    assert estimator.evaluate(input_fn) == {"loss": 0.0, "sign": -1.0, "global_step": 1}
    (prediction,) = estimator.predict(input_fn)
    assert list(prediction.values()) == [[2.0]]


@pytest.mark.slow
def test_a_loss_may_have_conditions_on_tensors(tmp_path):
    def loss(labels, predictions):
        if tf.reduce_sum(labels) > 0:
            return tf.reduce_mean(predictions - labels)
        return tf.reduce_mean(labels - predictions)

    model = keras.Sequential([layers.Dense(1, kernel_initializer="ones", input_shape=[1])])
    model.compile(keras.optimizers.SGD(0.0), loss)
    estimator = estimator_of(model, tmp_path)
    for label, expected in ((3.0, -1.0), (-3.0, -5.0)):
        metrics = estimator.train(lambda: one(2.0, label), steps=1).evaluate(lambda: one(2.0, label))  # noqa: B023
        assert metrics["loss"] == expected


def test_added_metrics_accept_layers_with_conditions_on_tensors(tmp_path):
    class Absolute(layers.Layer):
        def call(self, inputs):
            if tf.reduce_sum(inputs) > 0:
                return inputs
            return -inputs

    model = keras.Sequential([layers.Dense(1, kernel_initializer="ones", input_shape=[1]), Absolute()])
    model.compile("sgd", "mse")

    def metric_fn(predictions):
        (output,) = predictions.values()
        return {"sum": tf.compat.v1.metrics.mean(output)}

    estimator = et.add_metrics(estimator_of(model, tmp_path), metric_fn)
    assert estimator.evaluate(lambda: one(-2.0, 0.0))["sum"] == 2.0


class Marked(keras.Model):
    """Takes tensors of all kinds, and adds its loss."""

    def call(self, features):
        lengths = tf.cast(features["words"].row_lengths(), tf.float32)[:, None]
        self.add_loss(tf.reduce_mean(lengths))
        return lengths + tf.sparse.to_dense(features["marks"])


@pytest.mark.parametrize("replicas", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_added_metrics_take_ragged_and_sparse_features_and_no_labels(replicas, mirrored, tmp_path):
    def build():
        model = Marked()
        model.compile("sgd")
        return model

    def input_fn():
        features = {"words": tf.ragged.constant([[1], [1, 1], [1, 1, 1]]), "marks": tf.sparse.eye(3) * 2.0}
        return tf.data.Dataset.from_tensor_slices(features).batch(2).map(lambda features: (features, None))

    def metric_fn(features, labels, predictions):
        assert labels is None
        marks = tf.sparse.reduce_sum(features["marks"], axis=1)
        parts = features["words"].row_lengths(), marks, predictions["output_1"]
        return {name: tf.compat.v1.metrics.mean(part) for name, part in zip("abc", parts, strict=True)}

    estimator = et.add_metrics(estimator_of(build, tmp_path, mirrored(replicas)), metric_fn)
    metrics = estimator.evaluate(input_fn)
    assert pytest.approx([metrics[name] for name in "abc"]) == [2, 2, 2 + 2 / 3]


@pytest.mark.slow
def test_a_checkpoint_that_could_not_be_restored_leaves_nothing_behind(tmp_path):
    def model(units):
        model = keras.Sequential([layers.Dense(4, input_shape=[1]), layers.Dense(units)])
        model.compile("sgd", "mse")
        return model

    one_unit, two_units = estimator_of(model(1), tmp_path / "one"), estimator_of(model(2), tmp_path / "two")
    before = one_unit.train(lambda: one(1.0, 1.0)).evaluate(lambda: one(1.0, 1.0))
    other = two_units.train(lambda: one(1.0, 1.0)).latest_checkpoint()
    with pytest.raises(ValueError, match="is of another model"):
        one_unit.evaluate(lambda: one(1.0, 1.0), checkpoint_path=other)
    assert one_unit.evaluate(lambda: one(1.0, 1.0)) == before


def one(feature, label):
    """Returns a dataset of one example."""
    return tf.data.Dataset.from_tensors(([[feature]], [[label]]))


class Subclassed(keras.Model):
    def __init__(self, units=8):
        super().__init__()
        self.hidden = layers.Dense(units, activation="relu")
        self.norm = layers.BatchNormalization()
        self.head = layers.Dense(3, activation="softmax")

    def call(self, inputs, training=False):
        return self.head(self.norm(self.hidden(inputs), training=training))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("built", "replicas"),
    [(True, None), (False, 2)],
)
def test_subclassed_models_train_and_evaluate(built, replicas, data, batches, mirrored, tmp_path):
    model = Subclassed(units=5)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "categorical_crossentropy", metrics=["accuracy"])
    if built:
        eagerly(model).fit(*data, verbose=0)
        model.run_eagerly = False
    estimator = estimator_of(model, tmp_path, mirrored(replicas))
    if built:
        before = estimator.evaluate(batches(data, 20))
        expected = eagerly(model).evaluate(*data, batch_size=20, verbose=0, return_dict=True)
        assert before == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()} | {"global_step": 0}
    estimator.train(batches(data, 16))
    results = estimator.evaluate(batches(data, 20))
    model(data[0][:1])
    model.load_weights(estimator.latest_checkpoint()).expect_partial()
    expected = eagerly(model).evaluate(*data, batch_size=20, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(expected["loss"], rel=1e-6)
    assert next(iter(estimator.predict(batches(data, 20))))["output_1"].shape == (3,)


@pytest.mark.parametrize("generation", [pytest.param("tf_keras", marks=pytest.mark.slow), "keras"])
def test_an_estimator_whose_first_trace_failed_trains_on_good_data(generation, data, batches, tmp_path):
    kerases = pytest.importorskip(generation)

    class BuiltInItsFirstStep(kerases.Model):
        def __init__(self):
            super().__init__()
            self.head = kerases.layers.Dense(3)

        def call(self, inputs):
            return self.head(inputs)

    def build():
        model = BuiltInItsFirstStep()
        model.compile("sgd", "mse")
        return model

    estimator = et.model_to_estimator(build, model_dir=str(tmp_path))
    bad = data[0], data[1][:, :2]
    for call in (estimator.train, estimator.evaluate):
        with pytest.raises(ValueError, match="shape|dimension|size"):
            call(batches(bad, 16))
        call(batches(data, 16))
    assert estimator.get_variable_value("global_step") == 6


@pytest.mark.parametrize("replicas", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_labels_may_be_none_where_the_model_adds_its_loss(replicas, data, mirrored, tmp_path):
    rows = keras.Input((4,))
    model = keras.Model(rows, layers.Dense(1)(rows))
    model.add_loss(tf.reduce_mean(model.output**2))
    model.compile("sgd")
    estimator = estimator_of(model, tmp_path, mirrored(replicas))

    def input_fn():  # of unknown ranks, and of an odd number of batches
        batches = tf.data.Dataset.from_generator(lambda: iter(data[0][:60].reshape(5, 12, 4)), tf.float32)
        return batches.map(lambda rows: (rows, None))

    estimator.train(input_fn, steps=1)
    estimator.train(input_fn)
    expected = np.mean(model(data[0][:60]) ** 2)
    assert 0 < estimator.evaluate(input_fn)["loss"] < expected


def two_headed():
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    both = layers.Concatenate()([left, right])
    outputs = {
        "kind": layers.Dense(3, activation="softmax", name="kind", kernel_regularizer="l2")(both),
        "size": layers.Dense(1, name="size")(both),
    }
    model = keras.Model({"left": left, "right": right}, outputs)
    model.compile(
        "sgd",
        {"kind": "categorical_crossentropy", "size": "mse"},
        loss_weights={"kind": 1.0, "size": 0.3},
        metrics={"kind": ["accuracy", keras.metrics.AUC(name="roc")]},
        weighted_metrics={"size": ["mae"]},
    )
    return model


@pytest.mark.slow
def test_two_outputs_dict_inputs_loss_weights_and_weighted_metrics(data, batches, mirrored, tmp_path):
    x, y = data
    weights = np.linspace(0, 2, 96, dtype="float32")
    tensors = (
        {"left": x, "right": x[:, ::-1], "unused": x},
        {"kind": y, "size": x.sum(1, keepdims=True)},
        {"kind": weights, "size": weights},
    )
    model = two_headed()
    estimator = estimator_of(model, tmp_path, mirrored(2))
    estimator.train(batches(tensors, 16, epochs=2))
    model.load_weights(estimator.latest_checkpoint()).expect_partial()
    expected = eagerly(model).evaluate(batches(tensors, 20)(), verbose=0, return_dict=True)
    results = estimator.evaluate(batches(tensors, 20))
    assert results.pop("global_step") == 6
    assert results == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()}
    assert {"kind_loss", "size_loss", "kind_accuracy", "kind_roc", "size_mae"} <= results.keys()


def test_sample_weights_among_the_features_weigh_the_loss(classifier, data, batches, tmp_path):
    x, y = data
    weights = np.linspace(0, 3, 96, dtype="float32")
    tensors = {"features": x, "sample_weights": weights}, y
    model = classifier(weighted_metrics=["mae"])
    estimator = estimator_of(model, tmp_path)
    results = estimator.evaluate(batches(tensors, 32))
    expected = eagerly(model).evaluate(x, y, sample_weight=weights, batch_size=32, verbose=0, return_dict=True)
    assert results == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()} | {"global_step": 0}


@pytest.mark.slow
def test_mixed_bfloat16_models_train_and_evaluate(data, batches, tmp_path):
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        inputs = keras.Input((4,))
        hidden = layers.Dense(8, activation="relu")(inputs)
        model = keras.Model(inputs, layers.Dense(3, activation="softmax", dtype="float32")(hidden))
        model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    finally:
        keras.mixed_precision.set_global_policy("float32")
    estimator = estimator_of(model, tmp_path)
    estimator.train(batches(data, 32, epochs=2))
    model.load_weights(estimator.latest_checkpoint()).expect_partial()
    results = estimator.evaluate(batches(data, 20))
    expected = model.evaluate(*data, batch_size=20, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(expected["loss"], rel=1e-6)


@pytest.mark.slow
def test_frozen_layers_stay_frozen(data, batches, tmp_path):
    base = keras.Sequential([layers.Dense(8, input_shape=(4,)), layers.BatchNormalization()], name="base")
    base.trainable = False
    model = keras.Sequential([base, layers.Dense(3, activation="softmax")])
    model.build((None, 4))
    model.compile("adam", "categorical_crossentropy")
    before = base.get_weights()
    estimator = estimator_of(model, tmp_path)
    estimator.train(batches(data, 32))
    model.load_weights(estimator.latest_checkpoint()).expect_partial()
    for now, then in zip(base.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.slow
def test_string_lookup_vocabulary_comes_along(tmp_path):
    inputs = keras.Input((1,), dtype=tf.string)
    lookup = layers.StringLookup()
    lookup.adapt(np.array([["oct"], ["eye"], ["oct"]]))
    model = keras.Model(inputs, layers.Dense(1)(layers.Embedding(5, 2)(lookup(inputs))))
    model.compile("sgd", "mse")
    words = tf.constant([["oct"], ["eye"], ["new"]])
    rows = list(estimator_of(model, tmp_path).predict(lambda: tf.data.Dataset.from_tensors(words)))
    expected = eagerly(model).predict(words, verbose=0)
    assert_close([list(row.values())[0] for row in rows], expected, 1e-6)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("model.keras", marks=pytest.mark.slow),
        "model.h5",
        pytest.param("saved_model", marks=pytest.mark.slow),
    ],
)
def test_keras_model_path_loads_what_keras_saved(name, data, batches, tmp_path):
    class Doubled(layers.Layer):
        def call(self, inputs):
            return 2 * inputs

    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dense(3, activation="softmax", name="out")(Doubled()(inputs)))
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    model.save(tmp_path / name, **({"save_format": "tf"} if name == "saved_model" else {}))
    estimator = et.model_to_estimator(
        keras_model_path=tmp_path / name, custom_objects={"Doubled": Doubled}, model_dir=tmp_path / "run"
    )
    rows = list(estimator.predict(batches(data, 50)))
    assert_close(np.stack([row["out"] for row in rows]), eagerly(model).predict(data[0], verbose=0), 1e-6)
    estimator.train(batches(data, 50), steps=1)


@pytest.mark.smoke
def test_tf_train_checkpoint_reads_ours_and_damaged_ones_are_reported(classifier, data, batches, tmp_path):
    model = classifier(metrics=())
    estimator = estimator_of(model, tmp_path)
    estimator.train(batches(data, 32), steps=2)
    step, path = tf.Variable(0, dtype=tf.int64), estimator.latest_checkpoint()
    tf.train.Checkpoint(root=model, estimator_global_step=step).read(
        path
    ).assert_existing_objects_matched().expect_partial()
    assert step.numpy() == estimator.get_variable_value("global_step") == 2
    with open(f"{path}.data-00000-of-00001", "r+b") as file:
        file.truncate(50)
    for damaged in (path, str(tmp_path / "none-3")):
        with pytest.raises(ValueError, match="cannot be read"):
            estimator.evaluate(batches(data, 32), checkpoint_path=damaged)


@pytest.mark.slow
def test_metric_names_map_may_leave_out_the_losses_of_outputs(data, batches, tmp_path):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, [layers.Dense(3, name="p")(inputs), layers.Dense(3, name="q")(inputs)])
    model.compile("sgd", "mse", metrics=["mae"])
    names = {"p_mae": "first", "q_mae": "second"}  # all that tf.estimator took
    estimator = estimator_of(model, tmp_path, metric_names_map=names)
    x, y = data
    results = estimator.evaluate(batches((x, (y, y)), 32))
    assert results.keys() == {"first", "second", "p_loss", "q_loss", "loss", "global_step"}


def test_metric_names_map_renames_results(classifier, data, batches, tmp_path):
    estimator = estimator_of(classifier(), tmp_path, metric_names_map={"accuracy": "acc"})
    assert estimator.evaluate(batches(data, 32)).keys() == {"loss", "acc", "global_step"}
    estimator = estimator_of(classifier(), tmp_path / "wrong", metric_names_map={"auc": "a"})
    with pytest.raises(ValueError, match=r"every compiled metric, \['accuracy'\]"):
        estimator.evaluate(batches(data, 32))


def test_lambda_metrics_and_losses_are_kept(data, batches, tmp_path):
    model = keras.Sequential([layers.Dense(3, input_shape=(4,))])
    model.compile("sgd", lambda y, p: tf.reduce_mean((y - p) ** 2, -1), metrics=[lambda y, p: tf.abs(y - p)])
    results = estimator_of(model, tmp_path).evaluate(batches(data, 32))
    expected = eagerly(model).evaluate(*data, verbose=0, return_dict=True)
    assert results == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()} | {"global_step": 0}


class NeedsArguments(keras.Model):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def call(self, inputs):
        return self.layer(inputs)


def test_a_model_that_cannot_be_copied_says_what_to_pass_and_that_works(data, batches, tmp_path):
    def build():
        model = NeedsArguments(layers.Dense(3, activation="softmax"))
        model.compile("adam", "categorical_crossentropy")
        return model

    model = build()
    model(data[0])  # which makes its variables
    with pytest.raises(ValueError, match=r"model_to_estimator\(keras_model=build_model\)"):
        estimator_of(model, tmp_path / "model").train(batches(data, 32))
    estimator = estimator_of(build, tmp_path)
    assert estimator.train(batches(data, 32)).get_variable_value("global_step") == 3


def test_a_metric_called_global_step_is_refused(data, batches, tmp_path, classifier):
    estimator = estimator_of(classifier(metrics=[keras.metrics.MeanSquaredError(name="global_step")]), tmp_path)
    with pytest.raises(ValueError, match="global_step"):
        estimator.evaluate(batches(data, 32))


@pytest.mark.parametrize(("returned", "message"), [(None, "returns None"), (({}, 1, 2), "as a len 2 tuple, got 3")])
def test_an_input_fn_that_returns_no_batches_is_refused(returned, message, classifier, tmp_path):
    with pytest.raises(ValueError, match=message):
        estimator_of(classifier(), tmp_path).train(lambda: returned)


@pytest.mark.slow
def test_evaluation_takes_an_optimizers_averages(classifier, data, batches, mirrored, tmp_path):
    model = classifier(keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.8), metrics=())
    estimator = estimator_of(model, tmp_path, mirrored(2))
    estimator.train(batches(data, 16), steps=2)
    estimator.train(lambda: batches(data, 16)().skip(4))
    results = estimator.evaluate(batches(data, 16))
    eagerly(model).fit(batches(data, 32)(), verbose=0)
    expected = model.evaluate(*data, verbose=0)
    assert results["loss"] == pytest.approx(expected, rel=1e-5)


class OtherNames(keras.Model):
    def __init__(self):
        super().__init__()
        self.top = layers.Dense(3, activation="softmax")

    def call(self, inputs):
        return self.top(inputs)


@pytest.mark.slow
def test_a_checkpoint_of_another_unbuilt_model_names_the_variables(data, batches, tmp_path):
    model = Subclassed(units=5)
    model.compile("sgd", "categorical_crossentropy")
    estimator_of(model, tmp_path).train(batches(data, 32), steps=1)
    other = OtherNames()
    other.compile("sgd", "categorical_crossentropy")
    with pytest.raises(ValueError, match=r"another model: top/bias \(3,\) is not in the checkpoint"):
        estimator_of(other, tmp_path).evaluate(batches(data, 32))


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["tf_keras", "keras"])
def test_stateful_models_evaluate_and_predict_from_fresh_states(generation, batches, tmp_path):
    keras = pytest.importorskip(generation)
    model = keras.Sequential([keras.Input(batch_shape=(4, 3, 2)), keras.layers.LSTM(3, stateful=True)])
    model.compile("sgd", "mse")
    input_fn = batches((np.ones((8, 3, 2), "float32"), np.ones((8, 3), "float32")), 4)
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    estimator.train(input_fn)
    assert estimator.evaluate(input_fn) == estimator.evaluate(input_fn)
    first, second = ([each for row in estimator.predict(input_fn) for each in row.values()] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[0], first[4])  # within a run, states continue from batch to batch


@pytest.mark.slow
def test_an_unbuilt_sequential_model_resumes_with_its_optimizers_state(data, batches, tmp_path):
    def train(folder, *last_steps):
        for last_step in last_steps:
            keras.utils.set_random_seed(1)
            model = keras.Sequential([layers.Dense(3, activation="softmax")])
            model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "categorical_crossentropy")
            estimator = estimator_of(model, tmp_path / folder)
            estimator.train(batches(data, 96, epochs=2), max_steps=last_step)
        names = [name for name in estimator.get_variable_names() if "layer" in name or "optimizer" in name]
        return {name: estimator.get_variable_value(name) for name in names}

    tf.nest.map_structure(np.testing.assert_array_equal, train("halves", 1, 2), train("whole", 2))


def test_predict_takes_sample_weights_among_the_features(classifier, data, batches, tmp_path):
    x, _ = data
    tensors = {"features": x, "sample_weights": np.ones(96, "float32")}
    assert len(list(estimator_of(classifier(), tmp_path).predict(batches(tensors, 32)))) == 96


def test_features_may_hold_a_number_for_the_whole_batch(data, batches, tmp_path):
    inputs = {"a_scale": keras.Input((), batch_size=None, name="a_scale"), "x": keras.Input((4,), name="x")}
    model = keras.Model(inputs, layers.Dense(3)(inputs["x"]))
    model.compile("sgd", "mse")
    input_fn = lambda: batches(data, 32)().map(lambda x, y: ({"a_scale": 1.0, "x": x}, y))  # noqa: E731
    estimator = estimator_of(model, tmp_path)
    timing = et.TimingHook()
    estimator.train(input_fn, hooks=[timing])
    assert timing.summary()["steps"] == 2


def test_a_run_inside_the_scope_of_another_strategy_is_refused(classifier, data, batches, mirrored, tmp_path):
    estimator = estimator_of(classifier(), tmp_path)
    with mirrored(2).scope(), pytest.raises(ValueError, match="leave the scope"):
        estimator.train(batches(data, 32))


def test_training_in_a_cluster_is_refused(classifier, data, batches, monkeypatch, tmp_path):
    task = {"type": "worker", "index": 0}
    cluster = json.dumps({"cluster": {"chief": ["localhost:1"], "worker": ["localhost:2"]}, "task": task})
    monkeypatch.setenv("TF_CONFIG", cluster)
    estimator = estimator_of(classifier(), tmp_path)
    with pytest.raises(ValueError, match="2 workers"):
        estimator.train(batches(data, 32))


@pytest.mark.slow
def test_a_model_built_and_converted_in_the_strategys_scope_trains(classifier, data, batches, mirrored, tmp_path):
    strategy = mirrored(2)
    with strategy.scope():
        model = classifier("sgd", metrics=())
        estimator = estimator_of(model, tmp_path, strategy)
        estimator.train(batches(data, 16))
    assert estimator.evaluate(batches(data, 16))["global_step"] == 3


@pytest.mark.slow
def test_a_generator_without_shapes_gets_the_ranks_of_its_first_element(mirrored, tmp_path):
    def generate():
        for number in range(3):
            yield np.full((4, 4), number, "float32"), np.eye(3, dtype="float32")[[0, 1, 2, 0]]

    def input_fn():
        return tf.data.Dataset.from_generator(generate, (tf.float32, tf.float32))

    model = keras.Sequential([layers.Dense(3, "softmax", kernel_initializer="zeros", input_shape=(4,))])
    model.compile("sgd", "categorical_crossentropy", metrics=["acc"])
    config = et.RunConfig(tmp_path, train_distribute=mirrored(2), eval_distribute=mirrored(2))
    estimator = et.model_to_estimator(model, config=config)
    assert estimator.evaluate(input_fn)["acc"] == 0.5  # the first class wins where all are equal
    estimator.train(input_fn)
    assert estimator.get_variable_value("estimator_global_step/.ATTRIBUTES/VARIABLE_VALUE") == 2


@pytest.mark.slow
@pytest.mark.parametrize("keras_name", ["tf_keras", "keras"])
def test_metrics_of_predictions_take_no_second_pass_through_the_model(keras_name, data, batches, tmp_path):
    keras = importlib.import_module(keras_name)
    passes = []

    class Counting(keras.layers.Dense):
        def call(self, inputs):
            passes.append(None)
            return super().call(inputs)

    def build():
        model = keras.Sequential([keras.Input((4,)), Counting(3, activation="softmax")])
        model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
        return model

    def traced(estimator):
        passes.clear()
        results = estimator.evaluate(batches(data, 32))
        return results, len(passes)

    def metric_fn(labels, predictions):
        (outputs,) = predictions.values()
        return {"hits": tf.compat.v1.metrics.accuracy(tf.argmax(labels, 1), tf.argmax(outputs, 1))}

    estimator = et.model_to_estimator(build, model_dir=tmp_path)
    estimator.train(batches(data, 32), steps=1)
    estimator.evaluate(batches(data, 32))  # a copy that has been built
    plain, passes_of_metrics = traced(et.model_to_estimator(build, model_dir=tmp_path))
    both, passes_of_both = traced(et.add_metrics(et.model_to_estimator(build, model_dir=tmp_path), metric_fn))
    assert passes_of_both == passes_of_metrics > 0
    assert both["hits"] == both["accuracy"] == plain["accuracy"]
    assert both["loss"] == plain["loss"]


@pytest.mark.parametrize("generation", [pytest.param("tf_keras", marks=pytest.mark.slow), "keras"])
def test_evaluations_in_threads_trace_in_turn_with_the_numbers_of_one(generation, batches, tmp_path):
    kerases, tracing, at_once = pytest.importorskip(generation), [], []

    class Watched(kerases.layers.Dense):
        def call(self, inputs):
            tracing.append(self)
            at_once.append(len(tracing))
            time.sleep(0.02)  # for others to come in
            tracing.remove(self)
            return super().call(inputs)

    model = kerases.Sequential([kerases.Input((4,)), Watched(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    datasets = [batches((x, x[:, :1]), 16), batches((x[:16], x[:16, :1] + 3), 4)]
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    estimator.train(datasets[0], max_steps=2)
    half_read = estimator.predict(datasets[0])
    next(half_read)  # has a copy of the model of its own
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: estimator.evaluate(datasets[number % 2]), range(4)))
    assert set(at_once) == {1}
    assert found == [estimator.evaluate(dataset) for dataset in datasets] * 2
    assert len(list(half_read)) == 63


@pytest.mark.slow
def test_a_cell_that_runs_again_keeps_no_more_than_its_model(batches, tmp_path):
    outputs, models, input_fn = [], [], batches((np.ones((4, 1)), np.ones((4, 1))), 4)
    gc.freeze()  # what other tests have left takes seconds to look through
    for _ in range(3):
        model = keras.Sequential([layers.Dense(1, input_shape=(1,))])
        model.compile("sgd", "mse")
        estimator = et.model_to_estimator(model, model_dir=tmp_path / "run")
        outputs.append(estimator.train(input_fn, steps=1))  # IPython keeps the results of all cells
        gc.collect()
        models.append(sum(issubclass(type(each), keras.Model) for each in gc.get_objects()))
    assert models[2] - models[1] == 1
    assert outputs[0].train(input_fn, steps=1).get_variable_value("global_step") == 4
