"""Each setting of an Optimization trains as the same model that is written by hand in Keras."""

import keras as keras_3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import estimator_train as et
from estimator_train.models import Optimization
from estimator_train.models.compilation import recompile
from estimator_train.models.optimization import OPTIMIZERS

STEPS = 10
RATE = 0.05


def cosine(schedules):
    return schedules.CosineDecay(RATE, STEPS)


def warm_cosine(schedules):
    return schedules.CosineDecay(0.0, STEPS - 3, warmup_target=RATE, warmup_steps=3)


def step(schedules):
    return schedules.PiecewiseConstantDecay([STEPS // 2, 3 * STEPS // 4], [RATE, RATE / 10, RATE / 100])


def one_cycle(schedules):
    return schedules.CosineDecay(RATE / 25, STEPS - 3, 1 / 250_000, warmup_target=RATE, warmup_steps=3)


# What is given, and what is written by hand: the optimizer, its arguments, and label smoothing.
CASES = {
    "learning rate": ({"learning_rate": RATE}, "Adam", {"learning_rate": RATE}),
    "optimizer": ({"optimizer": "rmsprop"}, "RMSprop", {}),
    "optimizer and rate": ({"optimizer": "sgd", "learning_rate": RATE}, "SGD", {"learning_rate": RATE}),
    "constant": ({"learning_rate": RATE, "schedule": "constant"}, "Adam", {"learning_rate": RATE}),
    "cosine": ({"learning_rate": RATE, "schedule": "cosine"}, "Adam", {"learning_rate": cosine}),
    "cosine, warm-up": (
        {"learning_rate": RATE, "schedule": "cosine", "warmup_steps": 3},
        "Adam",
        {"learning_rate": warm_cosine},
    ),
    "step": ({"learning_rate": RATE, "schedule": "step"}, "Adam", {"learning_rate": step}),
    "one cycle": ({"learning_rate": RATE, "schedule": "one_cycle"}, "Adam", {"learning_rate": one_cycle}),
    "weight decay": ({"weight_decay": 0.3}, "Adam", {"learning_rate": 0.01, "weight_decay": 0.3}),
    "weight decay of adamw": ({"optimizer": "adamw", "weight_decay": 0.3}, "AdamW", {"weight_decay": 0.3}),
    "clipping": ({"clip_norm": 0.01}, "Adam", {"learning_rate": 0.01, "global_clipnorm": 0.01}),
    "averages": ({"ema": 0.5}, "Adam", {"learning_rate": 0.01, "use_ema": True, "ema_momentum": 0.5}),
    "label smoothing": ({"label_smoothing": 0.2}, "Adam", {"learning_rate": 0.01}, 0.2),
    "factor": ({"learning_rate_factor": 4}, "Adam", {"learning_rate": 0.04}),
}


def compiled(keras, optimizer, label_smoothing=0.0):
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=label_smoothing)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def by_hand(keras, name, arguments, label_smoothing=0.0):
    schedules = keras.optimizers.schedules
    arguments = {name: value(schedules) if callable(value) else value for name, value in arguments.items()}
    return compiled(keras, getattr(keras.optimizers, name)(**arguments), label_smoothing)


@pytest.fixture
def forever(data, batches):
    return batches(data, 16, epochs=None)


@pytest.mark.parametrize("keras", [tf_keras, keras_3], ids=["tf_keras", "Keras 3"])
@pytest.mark.parametrize("case", CASES)
def test_a_setting_trains_as_the_model_by_hand(keras, case, forever):
    given, *expected = CASES[case]
    ours, theirs = compiled(keras, keras.optimizers.Adam(0.01)), by_hand(keras, *expected)
    recompile(ours, Optimization(**given), STEPS)
    estimator = et.model_to_estimator(ours).train(forever, max_steps=STEPS)
    # fit ends with the averages, which an Estimator evaluates, as the weights. Logits of these inputs tell the weights.
    theirs.fit(forever(), steps_per_epoch=STEPS, verbose=0)
    inputs = np.concatenate([np.zeros([1, 4]), np.eye(4)]).astype("float32")
    rows = [next(iter(row.values())) for row in estimator.predict(lambda: tf.data.Dataset.from_tensors(inputs))]
    np.testing.assert_allclose(rows, theirs(inputs), atol=1e-5)
    metrics = estimator.evaluate(forever, steps=2)
    expected = theirs.evaluate(forever(), steps=2, verbose=0, return_dict=True)
    assert metrics == pytest.approx(expected | {"global_step": STEPS}, abs=1e-5)


def test_averages_are_others_than_the_weights(forever):
    # So that the comparison above can fail.
    with_averages, without = (by_hand(tf_keras, *CASES[case][1:]) for case in ("averages", "learning rate"))
    for model in (with_averages, without):
        model.optimizer.learning_rate = 0.01
        model.fit(forever(), steps_per_epoch=STEPS, verbose=0)
    assert np.abs(with_averages.get_weights()[0] - without.get_weights()[0]).max() > 1e-3


@pytest.mark.parametrize("keras", [tf_keras, keras_3], ids=["tf_keras", "Keras 3"])
@pytest.mark.parametrize("schedule", ["constant", "step"])
def test_a_warm_up_rises_from_0_and_survives_a_copy(keras, schedule):
    model = compiled(keras, keras.optimizers.SGD(RATE, momentum=0.9))
    recompile(model, Optimization(schedule=schedule, warmup_steps=4), 40)
    config = model.optimizer.get_config()
    assert config["momentum"] == 0.9
    copy = type(model.optimizer).from_config(config)
    rates = []
    for step in (0, 1, 3, 4, 20, 21, 31):
        copy.iterations.assign(step)
        rates.append(float(copy.learning_rate))
    falls = [1, 0.1, 0.01] if schedule == "step" else [1, 1, 1]
    np.testing.assert_allclose(rates, RATE * np.array([0, 0.25, 0.75, 1, *falls]), rtol=1e-5)


@pytest.mark.parametrize("loss", ["categorical_crossentropy", "binary_crossentropy", "function"])
def test_losses_by_name_are_smoothed(classifier, data, loss):
    loss = tf_keras.losses.categorical_crossentropy if loss == "function" else loss
    model = classifier("sgd")
    model.compile("sgd", loss)
    optimizer = model.optimizer
    recompile(model, Optimization(label_smoothing=0.2))
    function = tf_keras.losses.get(loss)
    expected = np.mean(function(data[1], model(data[0]), label_smoothing=0.2))
    assert model.evaluate(*data, verbose=0) == pytest.approx(expected, rel=1e-5)
    assert model.optimizer is optimizer


def test_what_is_not_asked_for_stays(classifier):
    model = classifier(tf_keras.optimizers.legacy.Adam(0.02), metrics=["accuracy", "mae"])
    optimizer = model.optimizer
    recompile(model, Optimization())
    assert model.optimizer is optimizer
    clipped = classifier(tf_keras.optimizers.Adam(0.02, clipvalue=0.5), metrics=["accuracy", "mae"])
    recompile(clipped, Optimization(weight_decay=0.1))
    assert (clipped.optimizer.clipvalue, float(clipped.optimizer.learning_rate)) == (0.5, pytest.approx(0.02))
    clipped.fit(np.zeros((2, 4)), np.eye(3)[:2], verbose=0)
    assert [metric.name for metric in clipped.metrics] == ["loss", "accuracy", "mae"]


class OwnCompile(tf_keras.Model):
    def compile(self, **arguments):
        super().compile("sgd", **arguments)


def test_models_that_cannot_be_changed_are_refused(classifier):
    with pytest.raises(ValueError, match="has a compile.. of its own"):
        recompile(OwnCompile(), Optimization(ema=0.9))
    with pytest.raises(ValueError, match="compiled with Adam, whose settings cannot be changed"):
        recompile(classifier(tf_keras.optimizers.legacy.Adam()), Optimization(ema=0.9))
    with pytest.raises(ValueError, match="schedule of learning rates; pass a learning_rate, too"):
        rising = tf_keras.optimizers.schedules.ExponentialDecay(1e-3, 1, 2)
        recompile(classifier(tf_keras.optimizers.Adam(rising)), Optimization(warmup_steps=3))
    model = classifier()
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="label_smoothing is for categorical and binary cross-entropy"):
        recompile(model, Optimization(label_smoothing=0.1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        ({"clip_norm": float("inf")}, "clip_norm must be positive, got inf"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative, got -1.0"),
        ({"ema": 1.0}, "ema must be at least 0 and less than 1, got 1.0"),
        ({"label_smoothing": float("nan")}, "label_smoothing must be at least 0 and less than 1, got nan"),
        ({"optimizer": "adm"}, "there is no optimizer 'adm'; pass one of adadelta, "),
        ({"schedule": "linear"}, "there is no schedule 'linear'; pass one of constant, cosine"),
    ],
)
def test_settings_out_of_range_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Optimization(**settings)


def test_a_schedule_needs_its_steps():
    Optimization(warmup_steps=9, schedule="constant").check_steps(None)
    with pytest.raises(ValueError, match="'cosine' has to know at which step training ends"):
        Optimization(schedule="cosine").check_steps(None)
    with pytest.raises(ValueError, match="warmup_steps 9 leaves none of the 9 steps to 'one_cycle'"):
        Optimization(schedule="one_cycle", warmup_steps=9).check_steps(9)


def test_optimizers_have_the_names_of_both_kerases():
    named = {
        name.lower()
        for name, kind in vars(tf_keras.optimizers).items()
        if isinstance(kind, type) and issubclass(kind, tf_keras.optimizers.Optimizer)
    }
    assert set(OPTIMIZERS) == named - {"optimizer", "lossscaleoptimizer"}
    assert all(hasattr(keras_3.optimizers, name) for name in OPTIMIZERS.values())
