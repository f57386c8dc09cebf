"""Keras callbacks do in the training of an Estimator what they do in fit."""

import csv
import importlib
import os

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import events

import estimator_train as et

STEPS, EPOCHS = 6, 8  # 96 examples in batches of 16


@pytest.fixture
def train_and_evaluate(data, batches, tmp_path):
    """Gives the estimator after epochs of train_and_evaluate with these callbacks, each evaluated, and the results."""

    def run(model, callbacks, steps_per_epoch=None, batch_size=16, **config):
        config = et.RunConfig(tmp_path / "run", keep_checkpoint_max=20, **config)
        estimator = et.model_to_estimator(model, config=config)
        hook = et.CallbacksHook(callbacks, steps_per_epoch)
        train_spec = et.TrainSpec(batches(data, batch_size, None), EPOCHS * STEPS, [hook])
        eval_spec = et.EvalSpec(batches(data, 32), None, every_steps=STEPS)
        results, _ = et.train_and_evaluate(estimator, train_spec, eval_spec)
        return estimator, results

    return run


@pytest.fixture
def fit(data, batches):
    """Trains a model with these callbacks by fit, and gives it."""

    def run(model, callbacks):
        training = batches(data, 16, None)()
        model.fit(
            training,
            epochs=EPOCHS,
            steps_per_epoch=STEPS,
            validation_data=batches(data, 32)(),
            callbacks=callbacks,
            verbose=0,
        )
        return model

    return run


class Events(keras.callbacks.Callback):
    """Keeps what is called, with its number and the names of the logs."""

    def __init__(self):
        super().__init__()
        self.seen = []
        for name in ("train", "epoch", "train_batch"):
            for edge in ("begin", "end"):
                setattr(self, f"on_{name}_{edge}", self._keeper(f"{name} {edge}"))

    def _keeper(self, event):
        def keep(*number_and_logs, logs=None):
            *number, given = number_and_logs if logs is None and number_and_logs else (*number_and_logs, logs)
            if isinstance(given, int):
                number, given = [given], None
            self.seen.append((event, *number, sorted(given or ())))

        return keep


def rows(path):
    """Reads the rows of a CSV file as floats."""
    with open(path) as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def model_of(keras):
    """A small compiled classifier of a Keras, "tf_keras" or "keras"."""
    keras = importlib.import_module(keras)
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(3, activation="softmax")]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(
        keras.optimizers.Adam(1.0), "categorical_crossentropy", metrics=["accuracy"], jit_compile=False
    )  # by default, Keras 3 compiles each program for a second
    return model


def standard(keras, folder):
    """Returns the callbacks that most programs use; files go to `folder`."""
    keras = importlib.import_module(keras)
    folder.mkdir()
    return [
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * (0.5 if epoch == 1 else 1)),
        keras.callbacks.ReduceLROnPlateau(factor=0.1, patience=1, min_delta=0.1),
        keras.callbacks.ModelCheckpoint(
            str(folder / "{epoch}.weights.h5"), save_best_only=True, save_weights_only=True
        ),
        keras.callbacks.CSVLogger(str(folder / "log.csv")),
        keras.callbacks.TensorBoard(str(folder / "board"), histogram_freq=1),
        keras.callbacks.EarlyStopping(patience=2, min_delta=0.15, restore_best_weights=True),
        keras.callbacks.TerminateOnNaN(),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("keras", "replicas"), [("tf_keras", None), ("keras", 2)])
def test_callbacks_do_as_they_do_in_fit(keras, replicas, train_and_evaluate, fit, mirrored, tmp_path):
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    fitted = fit(model_of(keras), standard(keras, plain))
    estimator, results = train_and_evaluate(
        model_of(keras), standard(keras, ours), batch_size=16 // (replicas or 1), train_distribute=mirrored(replicas)
    )
    expected = rows(plain / "log.csv")
    assert 2 < len(expected) < EPOCHS  # it has stopped early
    for row, other in zip(rows(ours / "log.csv"), expected, strict=True):
        assert row == pytest.approx(other, rel=1e-4, abs=1e-5)
    assert sorted(os.listdir(ours)) == sorted(os.listdir(plain))
    for side in ("train", "validation"):
        tags, tags_of_fit = ([event[:2] for event in events(each / "board" / side)] for each in (ours, plain))
        assert sorted(tags) == sorted(tags_of_fit) != []
    # The last checkpoint has the weights of the best epoch, and was evaluated at the end.
    assert estimator.latest_checkpoint().endswith(f"-{len(expected) * STEPS}")
    model = model_of(keras)
    tf.train.Checkpoint(model).read(estimator.latest_checkpoint()).expect_partial()
    for weight, other in zip(model.get_weights(), fitted.get_weights(), strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-5)
    assert results["loss"] == pytest.approx(expected[-3]["val_loss"], rel=1e-4)


@pytest.mark.slow
def test_events_come_in_the_order_of_fit(train_and_evaluate, fit, classifier):
    expected, events = Events(), Events()
    fit(classifier("sgd"), [expected])
    train_and_evaluate(classifier("sgd"), [events])
    assert events.seen == expected.seen
    assert ("epoch end", 7, ["accuracy", "loss", "val_accuracy", "val_loss"]) in events.seen


@pytest.mark.slow
def test_epochs_of_given_length_end_calls_of_several_steps_also_on_restart(classifier, data, batches, tmp_path):
    def train(max_steps, epochs=None, length=(STEPS, 0)):
        events, (steps_per_epoch, first_step) = Events(), length
        config = et.RunConfig(tmp_path, steps_per_loop=4, log_step_count_steps=None, save_summary_steps=None)
        estimator = et.model_to_estimator(classifier("sgd", metrics=()), config=config)
        hook = et.CallbacksHook(events, steps_per_epoch, first_step=first_step)
        estimator.train(batches(data, 16, epochs), hooks=[hook], max_steps=max_steps)
        return [event[:2] for event in events.seen if event[0] not in ("train begin", "train end")]

    def epoch(number):
        return [
            ("epoch begin", number),
            *[("train_batch begin", 0), ("train_batch end", 3), ("train_batch begin", 4), ("train_batch end", 5)],
            ("epoch end", number),
        ]

    assert train(2 * STEPS) == [*epoch(0), *epoch(1)]
    assert train(3 * STEPS) == epoch(2)
    train(3 * STEPS + 1)
    # Without data there is no batch, and the epoch, begun before the restart, does not end.
    assert train(4 * STEPS, epochs=0) == [("epoch begin", 3), ("train_batch begin", 1)]
    # 3 epochs are done at step 18. If they have 3 steps from there on, they count from step 9.
    numbered = train(3 * STEPS + 7, length=(3, 9))
    assert [event for event in numbered if "epoch" in event[0]] == [
        (edge, number) for number in (3, 4, 5) for edge in ("epoch begin", "epoch end")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("keras", ["tf_keras", "keras"])
def test_a_restart_inside_an_epoch_keeps_the_rate_that_it_began_with(keras, data, batches, tmp_path):
    kerases = importlib.import_module(keras)

    def train(max_steps):
        halves = kerases.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        estimator = et.model_to_estimator(model_of(keras), model_dir=tmp_path)
        estimator.train(batches(data, 16, None), hooks=[et.CallbacksHook(halves, 3)], max_steps=max_steps)
        (rate,) = (
            name for name in estimator.get_variable_names() if name.startswith("estimator_hyperparameters/learning")
        )
        return float(estimator.get_variable_value(rate))

    # Restarts inside an epoch, into the next one and to its end, and between epochs.
    assert [train(max_steps) for max_steps in (1, 4, 6, 7)] == [0.5, 0.25, 0.25, 0.125]


def test_a_session_after_an_error_counts_its_epochs_on(classifier, data, batches, tmp_path):
    class Fails(et.SessionRunHook):
        calls = 0

        def before_run(self, run_context):
            self.calls += 1
            if self.calls == 5:
                raise tf.errors.AbortedError(None, None, "as if a machine were gone")

    epochs = []
    notes = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append((epoch, sorted(logs))))
    estimator = et.model_to_estimator(classifier(), model_dir=tmp_path)
    train_spec = et.TrainSpec(batches(data, 16, None), 9, [Fails(), et.CallbacksHook(notes)])
    et.train_and_evaluate(estimator, train_spec, et.EvalSpec(batches(data, 32), None, every_steps=3))
    logged = ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert epochs == [(epoch, logged) for epoch in range(3)]


def test_what_callbacks_set_is_followed_and_saved(classifier, data, batches, tmp_path):
    class Freezes(keras.callbacks.Callback):
        """From the second epoch on nothing moves; at the end all weights are ones."""

        def on_epoch_begin(self, epoch, logs=None):
            self.model.optimizer.learning_rate = 0.1 if epoch == 0 else 0.0
            self.before = self.model.get_weights()

        def on_epoch_end(self, epoch, logs=None):
            moved = [not np.array_equal(*pair) for pair in zip(self.before, self.model.get_weights(), strict=True)]
            assert all(moved) if epoch == 0 else not any(moved)

        def on_train_end(self, logs=None):
            self.model.set_weights([np.ones_like(weight) for weight in self.model.get_weights()])

    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=tmp_path)
    estimator.train(batches(data, 16), hooks=[et.CallbacksHook([Freezes()], 3)], steps=6)
    names = [name for name in estimator.get_variable_names() if "layer_with_weights" in name]
    assert len(names) == 4
    for name in names:
        np.testing.assert_array_equal(estimator.get_variable_value(name), 1)
    state = tf.train.get_checkpoint_state(tmp_path)
    assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == ["model.ckpt-0", "model.ckpt-6"]


@pytest.mark.slow
def test_several_evaluations_are_kept_apart(classifier, data, batches, tmp_path):
    events = Events()
    estimator = et.model_to_estimator(classifier(metrics=()), model_dir=tmp_path)
    specs = [et.EvalSpec(batches(data, 32), 1, name=name, every_steps=3) for name in ("first", "second")]
    et.train_and_evaluate(estimator, et.TrainSpec(batches(data, 16), 4, [et.CallbacksHook([events])]), specs)
    ends = [event for event in events.seen if event[0] == "epoch end"]
    assert ends == [("epoch end", number, ["loss", "val_loss", "val_second_loss"]) for number in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("keras", ["tf_keras", "keras"])
def test_mlflows_callback_logs_the_losses_that_fit_logs(keras, train_and_evaluate, fit, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    callback = pytest.importorskip("mlflow.tensorflow" if keras == "tf_keras" else "mlflow.keras").MlflowCallback
    mlflow.set_tracking_uri(f"file://{tmp_path}/mlruns")

    def logged(train):
        with mlflow.start_run() as run:
            train(model_of(keras), [callback()])
        histories = (mlflow.MlflowClient().get_metric_history(run.info.run_id, name) for name in ("loss", "val_loss"))
        return [(point.key, point.step, round(point.value, 4)) for history in histories for point in history]

    try:
        fitted, ours = logged(fit), logged(train_and_evaluate)
    finally:
        mlflow.set_tracking_uri(None)
    assert len(fitted) == 2 * EPOCHS
    assert ours == fitted


def test_a_callback_of_tf_keras_is_not_for_keras_3(train_and_evaluate):
    with pytest.raises(ValueError, match=r"The model is of Keras 3, but .* set TF_USE_LEGACY_KERAS=0"):
        train_and_evaluate(model_of("keras"), [keras.callbacks.TerminateOnNaN()])


def test_what_cannot_be_served_is_refused(classifier, data, batches, tmp_path):
    with pytest.raises(TypeError, match="callbacks must be Keras callbacks, given: 'early'"):
        et.CallbacksHook(["early"])
    with pytest.raises(ValueError, match="steps_per_epoch >= 1, given: 0"):
        et.CallbacksHook([], 0)
    with pytest.raises(ValueError, match="BackupAndRestore is not needed"):
        et.CallbacksHook(keras.callbacks.BackupAndRestore(str(tmp_path)))

    def model_fn(features, mode):
        loss = tf.reduce_sum(features)
        return et.EstimatorSpec(mode, loss=loss, train_op=tf.compat.v1.train.get_global_step().assign_add(1))

    with pytest.raises(ValueError, match="for training a Keras model; with a model_fn, .* use SessionRunHooks"):
        et.Estimator(model_fn, tmp_path).train(batches(data[0], 4), hooks=[et.CallbacksHook([])])


def swap_model():
    model = model_of("keras")
    optimizer = importlib.import_module("keras").optimizers.SGD(0.1, use_ema=True)
    model.compile(optimizer, "categorical_crossentropy", jit_compile=False)
    return model


@pytest.mark.slow
def test_swapped_averages_end_in_the_last_checkpoint_as_in_fit(data, batches, tmp_path):
    callbacks = importlib.import_module("keras").callbacks
    fitted = swap_model()
    fit_data = batches(data, 16, None)()
    fitted.fit(
        fit_data, epochs=2, steps_per_epoch=STEPS, callbacks=[callbacks.SwapEMAWeights(swap_on_epoch=True)], verbose=0
    )
    estimator = et.model_to_estimator(swap_model(), model_dir=tmp_path)
    hook = et.CallbacksHook([callbacks.SwapEMAWeights(swap_on_epoch=True)], STEPS)
    estimator.train(batches(data, 16, None), hooks=[hook], max_steps=2 * STEPS)
    model = swap_model()
    tf.train.Checkpoint(model).read(estimator.latest_checkpoint()).expect_partial()
    for weight, other in zip(model.get_weights(), fitted.get_weights(), strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["tf_keras", pytest.param("keras", marks=pytest.mark.slow)])
def test_weights_that_a_callback_restores_replace_the_averages(name, data, batches, tmp_path):
    kerases = importlib.import_module(name)

    class Restores(kerases.callbacks.Callback):
        def on_train_end(self, logs=None):
            self.model.set_weights([np.zeros_like(weight) for weight in self.model.get_weights()])

    model = kerases.Sequential([kerases.Input((4,)), kerases.layers.Dense(3)])
    model.compile(kerases.optimizers.SGD(0.1, use_ema=True), "mse", jit_compile=False)
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    estimator.train(batches(data, 16), hooks=[et.CallbacksHook(Restores())], max_steps=2)
    (predicted, *_) = estimator.predict(batches(data, 16))
    assert not any(value.any() for value in predicted.values())


class StopsIn(keras.callbacks.Callback):
    """Stops in the second epoch's third step, and keeps the names of the logs of epochs."""

    def __init__(self):
        super().__init__()
        self.steps, self.logs = 0, []

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        self.model.stop_training = self.steps == STEPS + 3

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append((epoch, sorted(logs)))


@pytest.mark.slow
def test_an_epoch_that_a_callback_cuts_short_is_validated_as_in_fit(classifier, train_and_evaluate, fit):
    expected, ours = StopsIn(), StopsIn()
    fit(classifier("sgd"), [expected])
    estimator, _ = train_and_evaluate(classifier("sgd"), [ours])
    assert ours.logs == expected.logs
    assert "val_loss" in ours.logs[1][1]
    assert estimator.latest_checkpoint().endswith(f"-{STEPS + 3}")


@pytest.mark.slow
def test_calls_of_several_steps_are_those_of_fit(classifier, data, batches, tmp_path):
    expected, ours = Events(), Events()
    model = classifier("sgd")
    model.compile("sgd", "categorical_crossentropy", steps_per_execution=4)
    model.fit(batches(data, 16, None)(), epochs=2, steps_per_epoch=STEPS, callbacks=[expected], verbose=0)
    config = et.RunConfig(tmp_path, steps_per_loop=4)  # with summaries and log lines
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), config=config)
    estimator.train(batches(data, 16, None), hooks=[et.CallbacksHook(ours, STEPS)], max_steps=2 * STEPS)
    assert [event for event in ours.seen if "batch" in event[0]] == [
        event for event in expected.seen if "batch" in event[0]
    ]
