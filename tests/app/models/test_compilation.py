"""Each setting of an Optimization compiles, and all of them train, as the same model written by hand in Keras."""

import keras as keras_3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import estimator_train as et
from estimator_train.app.models import Optimization
from estimator_train.app.models.compilation import recompile
from estimator_train.app.models.optimization import OPTIMIZERS

STEPS = 10
RATE = 0.05


schedules = tf_keras.optimizers.schedules
COSINE = schedules.CosineDecay(RATE, STEPS)
WARM_COSINE = schedules.CosineDecay(0.0, STEPS - 3, warmup_target=RATE, warmup_steps=3)
STEP = schedules.PiecewiseConstantDecay([STEPS // 2, 3 * STEPS // 4], [RATE, RATE / 10, RATE / 100])
ONE_CYCLE = schedules.CosineDecay(RATE / 25, STEPS - 3, 1 / 250_000, warmup_target=RATE, warmup_steps=3)

# (Optimization, the same by hand: the optimizer, its arguments, and label smoothing)
CASES = {
    "learning rate": ({"learning_rate": RATE}, "Adam", {"learning_rate": RATE}),
    "optimizer": ({"optimizer": "rmsprop"}, "RMSprop", {}),
    "optimizer and rate": ({"optimizer": "sgd", "learning_rate": RATE}, "SGD", {"learning_rate": RATE}),
    "momentum": ({"optimizer": "sgd", "momentum": 0.9}, "SGD", {"momentum": 0.9}),
    "constant": ({"learning_rate": RATE, "schedule": "constant"}, "Adam", {"learning_rate": RATE}),
    "cosine": ({"learning_rate": RATE, "schedule": "cosine"}, "Adam", {"learning_rate": COSINE}),
    "cosine, warm-up": (
        {"learning_rate": RATE, "schedule": "cosine", "warmup_steps": 3},
        "Adam",
        {"learning_rate": WARM_COSINE},
    ),
    "step": ({"learning_rate": RATE, "schedule": "step"}, "Adam", {"learning_rate": STEP}),
    "one cycle": ({"learning_rate": RATE, "schedule": "one_cycle"}, "Adam", {"learning_rate": ONE_CYCLE}),
    "weight decay": ({"weight_decay": 0.3}, "Adam", {"learning_rate": 0.01, "weight_decay": 0.3}),
    "weight decay of adamw": ({"optimizer": "adamw", "weight_decay": 0.3}, "AdamW", {"weight_decay": 0.3}),
    "clipping": ({"clip_norm": 0.01}, "Adam", {"learning_rate": 0.01, "global_clipnorm": 0.01}),
    "averages": ({"ema": 0.5}, "Adam", {"learning_rate": 0.01, "use_ema": True, "ema_momentum": 0.5}),
    "label smoothing": ({"label_smoothing": 0.2}, "Adam", {"learning_rate": 0.01}, 0.2),
    "factor": ({"learning_rate_factor": 4}, "Adam", {"learning_rate": 0.04}),
}


def compiled(keras, optimizer, label_smoothing=0.0, run_eagerly=True):
    """`run_eagerly`: spares tracing ten steps of a tiny model."""
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=label_smoothing)
    model.compile(optimizer, loss, metrics=["accuracy"], run_eagerly=run_eagerly)
    return model


def by_hand(name, arguments, label_smoothing=0.0):
    return compiled(tf_keras, getattr(tf_keras.optimizers, name)(**arguments), label_smoothing)


@pytest.fixture
def forever(data, batches):
    return batches(data, 16, epochs=None)


def rates(optimizer):
    """Returns the rest of its configuration, too."""
    config = optimizer.get_config()
    rate = config.pop("learning_rate")
    if not isinstance(rate, dict):
        return [rate] * STEPS, config
    schedule = schedules.deserialize(rate)
    return [float(schedule(step)) for step in range(STEPS)], config


@pytest.mark.parametrize("schedule", ["cosine", "step", "one_cycle"])
def test_the_schedule_of_a_phase_begins_with_it(schedule):
    whole, phase = (by_hand("Adam", {"learning_rate": RATE}) for _ in range(2))
    optimization = Optimization(schedule=schedule, warmup_steps=1)
    recompile(whole, optimization, STEPS - 2)
    recompile(phase, optimization, STEPS, first_step=2)
    of_whole, of_phase = rates(whole.optimizer)[0], rates(phase.optimizer)[0]
    np.testing.assert_allclose(of_phase, [of_whole[0]] * 2 + of_whole[:-2], rtol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_a_setting_compiles_as_the_model_by_hand(case):
    given, *expected = CASES[case]
    ours, theirs = compiled(tf_keras, tf_keras.optimizers.Adam(0.01)), by_hand(*expected)
    before = ours.optimizer.get_config(), ours.loss.get_config()
    recompile(ours, Optimization(**given), STEPS)
    assert (ours.optimizer.get_config(), ours.loss.get_config()) != before
    assert type(ours.optimizer) is type(theirs.optimizer)
    (our_rates, ours_too), (their_rates, theirs_too) = rates(ours.optimizer), rates(theirs.optimizer)
    np.testing.assert_allclose(our_rates, their_rates, rtol=1e-5)
    assert ours_too == theirs_too
    assert ours.loss.get_config() == theirs.loss.get_config()


def test_settings_together_train_as_the_model_by_hand(forever):
    ours = compiled(tf_keras, tf_keras.optimizers.Adam(0.01))
    theirs = by_hand(
        "AdamW",
        {"learning_rate": COSINE, "weight_decay": 0.3, "global_clipnorm": 0.1, "use_ema": True, "ema_momentum": 0.5},
        0.2,
    )
    before = ours.get_weights()
    settings = {"optimizer": "adamw", "weight_decay": 0.3, "clip_norm": 0.1, "ema": 0.5, "label_smoothing": 0.2}
    recompile(ours, Optimization(**settings, learning_rate=RATE, schedule="cosine"), STEPS)
    for model in (ours, theirs):
        model.fit(forever(), steps_per_epoch=STEPS, verbose=0)
    for weight, truth, first in zip(ours.get_weights(), theirs.get_weights(), before, strict=True):
        np.testing.assert_allclose(weight, truth, atol=1e-5)
        assert np.abs(weight - first).max() > 1e-4
    assert ours.evaluate(forever(), steps=2, verbose=0) == pytest.approx(
        theirs.evaluate(forever(), steps=2, verbose=0), abs=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("keras", [tf_keras, keras_3], ids=["tf_keras", "Keras 3"])
def test_an_estimator_trains_all_of_them_together_as_fit(keras, forever, tmp_path):
    def make(learning_rate):
        smoothed = compiled(keras, keras.optimizers.Adam(0.01), run_eagerly=False)
        settings = {"optimizer": "adamw", "weight_decay": 0.1, "clip_norm": 0.1, "ema": 0.5, "label_smoothing": 0.1}
        schedule = {"learning_rate": learning_rate, "schedule": "cosine", "warmup_steps": 3}
        recompile(smoothed, Optimization(**settings, **schedule), STEPS)
        return smoothed

    fitted = make(RATE)
    # Trained in two parts: the optimizer's state, its averages and the place in the schedule are taken up again.
    for last_step in (4, STEPS):
        config = et.RunConfig(tmp_path, resume_input=True)
        estimator = et.model_to_estimator(make(RATE), config=config).train(forever, max_steps=last_step)
    # fit ends with the averages, which an Estimator evaluates, as the weights. Logits of these inputs tell the weights.
    fitted.fit(forever(), steps_per_epoch=STEPS, verbose=0)
    inputs = np.concatenate([np.zeros([1, 4]), np.eye(4)]).astype("float32")
    rows = [next(iter(row.values())) for row in estimator.predict(lambda: tf.data.Dataset.from_tensors(inputs))]
    np.testing.assert_allclose(rows, fitted(inputs), atol=1e-5)
    expected = fitted.evaluate(forever(), steps=2, verbose=0, return_dict=True)
    assert estimator.evaluate(forever, steps=2) == pytest.approx(expected | {"global_step": STEPS}, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keras", "schedules"),
    [
        pytest.param(tf_keras, ("constant", "step"), id="to a schedule"),
        pytest.param(keras_3, ("step", "constant"), id="from a schedule, Keras 3"),
    ],
)
def test_training_resumes_with_another_schedule(keras, schedules, forever, tmp_path):
    def make(schedule, run_eagerly=False):
        model = compiled(keras, keras.optimizers.Adam(RATE), run_eagerly=run_eagerly)
        recompile(model, Optimization(schedule=schedule), STEPS)
        return model

    for schedule, last_step in zip(schedules, (4, STEPS), strict=True):
        config = et.RunConfig(tmp_path, resume_input=True)
        estimator = et.model_to_estimator(make(schedule), config=config).train(forever, max_steps=last_step)
    fitted = make(schedules[1], run_eagerly=True)  # in the first 4 of 10 steps both have one rate
    fitted.fit(forever(), steps_per_epoch=STEPS, verbose=0)
    other = et.model_to_estimator(make(schedules[0]), model_dir=tmp_path)
    expected = fitted.evaluate(forever(), steps=2, verbose=0, return_dict=True) | {"global_step": STEPS}
    for each in (estimator, other):
        assert each.evaluate(forever, steps=2) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("keras", [tf_keras, keras_3], ids=["tf_keras", "Keras 3"])
@pytest.mark.parametrize("schedule", ["constant", "step"])
def test_a_warm_up_rises_from_0_and_is_kept_in_configurations(keras, schedule):
    model = compiled(keras, keras.optimizers.SGD(RATE, momentum=0.9))
    recompile(model, Optimization(schedule=schedule, warmup_steps=4), 40)
    config = model.optimizer.get_config()
    assert config["momentum"] == pytest.approx(0.9)
    copy = keras.optimizers.schedules.deserialize(config["learning_rate"])
    rates = [float(copy(step)) for step in (0, 1, 3, 4, 20, 21, 31)]
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


def test_settings_not_passed_are_unchanged(classifier):
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
    with pytest.raises(ValueError, match="overrides compile"):
        recompile(OwnCompile(), Optimization(ema=0.9))
    with pytest.raises(ValueError, match="compiled with Adam, whose settings cannot be changed"):
        recompile(classifier(tf_keras.optimizers.legacy.Adam()), Optimization(ema=0.9))
    with pytest.raises(ValueError, match="learning-rate schedule; pass a learning_rate, too"):
        rising = tf_keras.optimizers.schedules.ExponentialDecay(1e-3, 1, 2)
        recompile(classifier(tf_keras.optimizers.Adam(rising)), Optimization(warmup_steps=3))
    with pytest.raises(ValueError, match="has not been compiled; compile it where it is built"):
        recompile(tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(1,))]), Optimization(ema=0.9))
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
    with pytest.raises(ValueError, match="'cosine' needs to know at which step training ends"):
        Optimization(schedule="cosine").check_steps(None)
    with pytest.raises(ValueError, match="warmup_steps 9 leaves none of the 9 steps for 'one_cycle'"):
        Optimization(schedule="one_cycle", warmup_steps=9).check_steps(9)


def test_optimizers_have_the_names_of_both_kerases():
    named = {
        name.lower()
        for name, kind in vars(tf_keras.optimizers).items()
        if isinstance(kind, type) and issubclass(kind, tf_keras.optimizers.Optimizer)
    }
    assert set(OPTIMIZERS) == named - {"optimizer", "lossscaleoptimizer"}
    assert all(hasattr(keras_3.optimizers, name) for name in OPTIMIZERS.values())
