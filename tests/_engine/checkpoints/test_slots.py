"""Variables keep their slots when training continues with different frozen layers."""

import shutil

import keras as keras_3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from slow_cases import slow

import estimator_train as et
from estimator_train._engine.checkpoints import CheckpointError, slots

QUIET = {"save_summary_steps": None, "checkpoint_save_graph_def": False}  # no test reads these files


def build(weights=None, frozen=1, optimizer=None):
    """Builds a classifier with layers named by Keras, the first of them frozen."""
    layers = [keras.layers.Dense(3, activation="tanh") for _ in range(2)]
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3, activation="softmax")])
    for layer in layers[:frozen]:
        layer.trainable = False
    model.compile(optimizer or keras.optimizers.Adam(0.1), "categorical_crossentropy")
    if weights is not None:
        model.set_weights(weights)
    return model


def train(model, folder, data, batches, **config):
    config = et.RunConfig(folder, **QUIET, **config)
    return et.model_to_estimator(model, config=config).train(batches(data, 16), steps=2)


def fit(model, data):
    x, y = (part[:32] for part in data)
    model.run_eagerly = True
    model.fit(x, y, batch_size=16, shuffle=False, verbose=0)


def slots_of(model):
    """Returns the optimizer's variables by name, without the numbers in Keras' layer names."""
    places = {weight.name: index for index, weight in enumerate(model.weights)}
    named = {variable.name: variable for variable in model.optimizer.variables}
    split = {name: name.partition("/") for name in named}
    return {(slot, places[weight]): named[name] for name, (slot, _, weight) in split.items() if weight in places}


@pytest.mark.slow
def test_slots_follow_their_variables_and_new_ones_begin_at_zero(data, batches, tmp_path, log_lines):
    weights = build().get_weights()
    before = build(weights, 2, keras.optimizers.Adam(0.1))
    before.optimizer.build(before.trainable_variables)  # in fit, their names would contain the optimizer's name
    fit(before, data)
    train(build(weights, 2, keras.optimizers.Adam(0.1)), tmp_path, data, batches)
    # Unfreeze, freeze and unfreeze layers; each new model has different layer names.
    for frozen, begun_anew in ((1, 2), (2, 0), (0, 4)):
        expected = build(before.get_weights(), frozen, keras.optimizers.Adam(0.1))
        expected.optimizer.build(expected.trainable_variables)
        kept = slots_of(before)
        for key, variable in slots_of(expected).items():
            variable.assign(kept.get(key, 0 * variable))
        expected.optimizer.iterations.assign(before.optimizer.iterations)
        fit(expected, data)
        estimator = train(build(weights, frozen, keras.optimizers.Adam(0.1)), tmp_path, data, batches)
        loaded = build(frozen=frozen)
        loaded.load_weights(estimator.latest_checkpoint()).expect_partial()
        for ours, theirs in zip(loaded.get_weights(), expected.get_weights(), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
        said = [line for line in log_lines if line.startswith("The optimizer starts without state for")]
        assert said[-1].startswith(f"The optimizer starts without state for {begun_anew} variables that checkpoint ")
        before = expected
    assert estimator.evaluate(batches(data, 32))["global_step"] == 8


@pytest.mark.slow
def test_slots_follow_on_replicas_and_with_a_scaled_loss(data, batches, mirrored, tmp_path, log_lines):
    def scaled(frozen):
        optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(0.1), dynamic=False, initial_scale=8)
        return build(frozen=frozen, optimizer=optimizer)

    train(scaled(2), tmp_path, data, batches, train_distribute=mirrored(2))
    estimator = train(scaled(1), tmp_path, data, batches, train_distribute=mirrored(2))
    assert any(line.startswith("The optimizer starts without state for 2 variables") for line in log_lines)
    assert estimator.evaluate(batches(data, 32))["global_step"] == 4


VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"

# Three layers of one size, so that values at wrong positions would fit.


def own_step(model, data):
    features, labels = data
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(features, training=True) - labels))
    gradients = tape.gradient(loss, model.trainable_variables)
    model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return {"loss": loss}


OwnStep = type("OwnStep", (keras.Sequential,), {"train_step": own_step})
OwnStep3 = type("OwnStep3", (keras_3.Sequential,), {"train_step": own_step})


def equal_layers(kind, frozen, rate=0.1, **options):
    """Builds a model of `kind`, a class, with the layers numbered in `frozen` frozen."""
    library = keras_3 if issubclass(kind, keras_3.Model) else keras
    library.utils.set_random_seed(1)
    model = kind([library.layers.Dense(4, activation="tanh", name=f"dense{index}") for index in range(3)])
    model.build((None, 4))
    for index in frozen:
        model.layers[index].trainable = False
    model.compile(library.optimizers.SGD(rate, momentum=0.9, **options), "mse")
    return model


def fours(steps=3):
    x = np.random.default_rng(2).normal(size=(4, 4)).astype("float32")
    return lambda: tf.data.Dataset.from_tensors((x, x[:, ::-1])).repeat(steps)


def kernels_and_slots_in(path):
    """Returns the kernels in a checkpoint by the layer's number, and their slots by (layer's number, slot's name)."""
    reader = tf.train.load_checkpoint(str(path))
    keys = [name.removesuffix(VALUE) for name in sorted(reader.get_variable_to_shape_map())]
    kernels = [key for key in keys if key.endswith("kernel") and not key.startswith("optimizer")]
    slots_of_kernels = {
        (kernels.index(weight), slot): reader.get_tensor(key + VALUE)
        for (weight, slot), key in slots.saved(str(path)).items()
        if weight in kernels
    }
    return {index: reader.get_tensor(key + VALUE) for index, key in enumerate(kernels)}, slots_of_kernels


@pytest.mark.parametrize(
    ("before", "after", "kind", "replicas"),
    [
        ((0,), (1,), keras_3.Sequential, None),
        slow((0, 1), (), OwnStep, 2),
    ],
    ids=str,
)
def test_slots_follow_in_steps_of_ones_own_and_in_keras_3(before, after, kind, replicas, mirrored, tmp_path):
    def train(frozen, steps):
        config = et.RunConfig(tmp_path / "run", train_distribute=mirrored(replicas), **QUIET)
        estimator = et.model_to_estimator(lambda: equal_layers(kind, frozen, use_ema=True), config=config)
        estimator.train(fours(), steps=steps)

    train(before, 2)
    shutil.copytree(tmp_path / "run", tmp_path / "first")
    train(after, 1)
    kernels, first = kernels_and_slots_in(tmp_path / "first" / "model.ckpt-2")
    _, again = kernels_and_slots_in(tmp_path / "run" / "model.ckpt-2")  # is saved again when training goes on
    momentum = "m" if kind is OwnStep else "momentum"
    assert first.keys() == {(layer, slot) for layer in {0, 1, 2} - set(before) for slot in (momentum, "average")}
    assert again.keys() == {(layer, slot) for layer in {0, 1, 2} - set(after) for slot in (momentum, "average")}
    for (layer, slot), value in again.items():
        initial = kernels[layer] if slot == "average" else 0 * value
        np.testing.assert_array_equal(value, first.get((layer, slot), initial), err_msg=f"{layer} {slot}")


SCHEDULE = keras_3.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)


def test_a_keras_3_model_with_a_schedule_reads_its_slots(tmp_path):
    model = equal_layers(keras_3.Sequential, (), SCHEDULE)
    estimator = et.model_to_estimator(model, config=et.RunConfig(tmp_path, **QUIET)).train(fours(), steps=2)
    model.optimizer.build(model.trainable_variables)
    tf.train.Checkpoint(model).read(estimator.latest_checkpoint()).expect_partial()
    _, saved = kernels_and_slots_in(estimator.latest_checkpoint())
    read = [variable.numpy() for variable in model.optimizer.variables if variable.path.endswith("kernel_momentum")]
    np.testing.assert_equal(read, [saved[key] for key in sorted(saved)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [keras.Sequential, keras_3.Sequential], ids=["tf_keras", "Keras 3"])
def test_slots_within_an_optimizer_that_scales_the_loss_follow(kind, tmp_path):
    def train(frozen, steps):
        model = equal_layers(kind, frozen)
        library = keras_3.optimizers if kind is keras_3.Sequential else keras.mixed_precision
        model.compile(library.LossScaleOptimizer(model.optimizer, initial_scale=8), "mse")
        et.model_to_estimator(model, config=et.RunConfig(tmp_path / "run", **QUIET)).train(fours(), steps=steps)

    train((0, 1), 2)
    shutil.copytree(tmp_path / "run", tmp_path / "first")
    train((1,), 1)
    (_, first), (_, again) = (kernels_and_slots_in(tmp_path / name / "model.ckpt-2") for name in ("first", "run"))
    ((kept, momentum),) = first.items()
    assert kept[0] == 2 and again.keys() == {(0, kept[1]), kept}
    np.testing.assert_array_equal(again[kept], momentum)
    assert not again[0, kept[1]].any()


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [("float16", None), (None, "float16")])
def test_a_keras_3_optimizer_counts_on_when_a_loss_scale_comes_or_goes(before, after, tmp_path):
    for precision in (before, after):
        model = equal_layers(keras_3.Sequential, (), SCHEDULE)
        config = et.RunConfig(tmp_path, mixed_precision=precision, **QUIET)
        estimator = et.model_to_estimator(model, config=config).train(fours(), steps=2)
    inner = "" if after is None else "inner_optimizer/"
    assert estimator.get_variable_value(f"optimizer/{inner}_iterations/.ATTRIBUTES/VARIABLE_VALUE") == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ((0, 1), (), keras.Sequential),
        ((0,), (1,), keras_3.Sequential),
    ],
    ids=str,
)
def test_averages_are_evaluated_and_start_others_warm_whatever_is_frozen(before, after, kind, tmp_path):
    def estimator(frozen, folder="run", **options):
        model = equal_layers(kind, frozen, use_ema=True, ema_momentum=0.5)
        return et.model_to_estimator(model, config=et.RunConfig(tmp_path / folder, **QUIET), **options)

    first, other = estimator(before), estimator(after)
    first.train(fours())
    loss = first.evaluate(fours(1))["loss"]
    assert other.evaluate(fours(1))["loss"] == loss
    for ours, theirs in zip(other.predict(fours(1)), first.predict(fours(1)), strict=True):
        np.testing.assert_array_equal(*(list(each.values())[0] for each in (ours, theirs)))
    warm = estimator((), "warm", warm_start_from=str(tmp_path / "run"))
    assert warm.evaluate(fours(1))["loss"] == loss


@pytest.mark.slow
def test_a_checkpoint_resumes_with_other_frozen_layers(tmp_path):
    def estimator(frozen, folder="run"):
        return et.model_to_estimator(
            equal_layers(keras.Sequential, frozen), config=et.RunConfig(tmp_path / folder, **QUIET)
        )

    first = estimator((0,))
    first.train(fours(), steps=2)
    estimator((1,)).train(fours(), steps=2)
    shutil.copytree(tmp_path / "run", tmp_path / "new")
    first.train(fours(), steps=2)
    estimator((0,), "new").train(fours(), steps=2)
    (_, ours), (_, expected) = (kernels_and_slots_in(tmp_path / name / "model.ckpt-6") for name in ("run", "new"))
    assert ours.keys() == expected.keys()
    for key, value in ours.items():
        np.testing.assert_array_equal(value, expected[key])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [keras.Sequential, keras_3.Sequential], ids=["tf_keras", "Keras 3"])
def test_slots_of_another_optimizer_are_not_taken_but_averages_are(kind, tmp_path, log_lines):
    library = keras_3 if kind is keras_3.Sequential else keras

    def train(optimizer, steps):
        model = equal_layers(kind, ())
        model.compile(optimizer, "mse")
        et.model_to_estimator(model, config=et.RunConfig(tmp_path / "run", **QUIET)).train(fours(), steps=steps)

    train(library.optimizers.SGD(0.1, momentum=0.9, use_ema=True), 2)
    shutil.copytree(tmp_path / "run", tmp_path / "first")
    train(library.optimizers.Adam(0.1, use_ema=True), 1)
    (_, first), (_, again) = (kernels_and_slots_in(tmp_path / name / "model.ckpt-2") for name in ("first", "run"))
    assert len(first) == 6 and len(again) == 9
    for (layer, slot), value in again.items():
        np.testing.assert_array_equal(value, first[layer, slot] if slot == "average" else 0 * value)
    assert any("is of another optimizer, whose slots are m" in line for line in log_lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rate"),
    [(OwnStep, 0.1), (keras.Sequential, 0.1), (keras_3.Sequential, SCHEDULE)],
    ids=["own step", "tf_keras", "Keras 3"],
)
def test_averages_begin_with_weights_and_slots_survive_another_rate(kind, rate, tmp_path):
    def train(steps, rate=0.1, **options):
        model = equal_layers(kind, (), rate, **options)
        et.model_to_estimator(lambda: model, config=et.RunConfig(tmp_path, **QUIET)).train(fours(), steps=steps)

    def saved(step):
        return kernels_and_slots_in(tmp_path / f"model.ckpt-{step}")

    train(2)
    kernels, first = saved(2)
    train(1, rate, use_ema=True)
    _, again = saved(2)  # saved again when training goes on
    for (layer, slot), value in again.items():
        np.testing.assert_array_equal(value, kernels[layer] if slot == "average" else first[layer, slot])
    _, before = saved(3)
    train(1)
    _, again = saved(3)
    assert again.keys() == first.keys() and len(before) == 6
    np.testing.assert_equal(again, {key: before[key] for key in again})


@pytest.mark.slow
def test_slots_follow_when_a_layer_makes_its_parts_in_another_order(tmp_path):
    class Pair(keras.layers.Layer):
        def __init__(self, order, **options):
            super().__init__(**options)
            for name in order:
                setattr(self, name, keras.layers.Dense(4, name=name))

        def call(self, inputs):
            return self.one(inputs) - self.other(inputs)

    def train(order, steps):
        def build():
            model = keras.Sequential([Pair(order, input_shape=(4,), name="pair")])
            model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
            return model

        et.model_to_estimator(build, config=et.RunConfig(tmp_path / "run", **QUIET)).train(fours(), steps=steps)

    train(["one", "other"], 2)
    shutil.copytree(tmp_path / "run", tmp_path / "first")
    train(["other", "one"], 1)
    (_, first), (_, again) = (kernels_and_slots_in(tmp_path / name / "model.ckpt-2") for name in ("first", "run"))
    assert first.keys() == again.keys() and len(first) == 2
    for key, value in first.items():
        np.testing.assert_array_equal(again[key], value)
    assert not np.array_equal(*first.values())


class Nameless(keras.layers.Layer):
    """A layer whose variables all have the same name."""

    def __init__(self, **options):
        super().__init__(**options)
        self.scale = tf.Variable(tf.random.stateless_uniform([4], (1, 1)))

    def call(self, inputs):
        return inputs * self.scale


@pytest.mark.slow
def test_averages_with_ambiguous_names_match_trained_weights_by_order(tmp_path):
    def estimator(frozen):
        model = keras.Sequential([Nameless(input_shape=(4,)), Nameless(), Nameless()])
        for index in frozen:
            model.layers[index].trainable = False
        model.compile(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5), "mse")
        return et.model_to_estimator(model, config=et.RunConfig(tmp_path, **QUIET))

    first = estimator((0,))
    first.train(fours())
    assert estimator((0,)).evaluate(fours(1)) == first.evaluate(fours(1))
    with pytest.raises(CheckpointError, match="averages of 2 weights, whose names .*trains 3; freeze the same layers"):
        estimator(()).evaluate(fours(1))
    with pytest.raises(CheckpointError, match="has 4 variables of the optimizer, whose names .* and the model has 6"):
        estimator(()).train(fours())


@pytest.mark.parametrize("scales_loss", [False, True])
def test_a_checkpoint_is_read_without_the_slots_of_an_optimizer(scales_loss, tmp_path):
    """Slots of other frozen layers would be read by their place in the list, into variables of others."""
    saved, read = (keras.Sequential([keras.layers.Dense(1, input_shape=(1,))]) for _ in range(2))
    for model, value in ((saved, 1), (read, 2)):
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build(model.trainable_variables)
        wrapped = keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=2**value)
        model.compile(wrapped if scales_loss else optimizer, "mse")
        for variable in (*model.weights, *optimizer.variables):
            variable.assign(tf.fill(variable.shape, tf.cast(value, variable.dtype)))
    path = tf.train.Checkpoint(saved).write(str(tmp_path / "saved"))
    tf.train.Checkpoint(slots.without_slots(read)).read(path).expect_partial()
    inner = getattr(read.optimizer, "inner_optimizer", read.optimizer)
    assert {float(weight) for weight in map(tf.squeeze, read.weights)} == {1.0} and int(inner.iterations) == 1
    assert [float(tf.squeeze(variable)) for variable in inner.variables][1:] == [2.0, 2.0]  # after the iterations
    assert not scales_loss or float(read.optimizer.loss_scale) == 2
