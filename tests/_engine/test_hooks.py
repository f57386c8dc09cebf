"""When hooks next look, and what counts as a hook."""

import math

import keras as keras3
import pytest
import tensorflow as tf
import tf_keras

import estimator_train as et
from estimator_train._engine.hooks import check_hooks, next_look, see_each_step

SessionRunHook = tf.compat.v1.train.SessionRunHook


class Logging(et.loggers.Logger):
    def log_metrics(self, step, metrics):
        pass


def test_an_own_hook_looks_at_each_step_and_one_that_only_ends_at_none():
    class Ending(SessionRunHook):
        def end(self, session):
            pass

    class Looking(SessionRunHook):
        def before_run(self, run_context):
            pass

    patched = SessionRunHook()
    patched.after_run = lambda run_context, run_values: None
    assert [next_look([hook], 5) for hook in (Ending(), Looking(), patched)] == [math.inf, 6, 6]
    assert next_look([], 5) == math.inf
    assert [see_each_step([hook]) for hook in (Ending(), Looking(), patched)] == [False, True, True]
    assert not see_each_step([Ending(), et.ProgressHook()])


def test_a_subclass_that_adds_to_a_step_sees_each_unless_it_says_which():
    class Seeing(et.ProgressHook):
        def after_run(self, run_context, run_values):
            pass

    class Choosing(Seeing):
        def next_look(self, global_step):
            return 100

    class Named(et.ProgressHook):
        pass

    assert [next_look([hook], 5) for hook in (Seeing(), Choosing(), Named())] == [6, 100, math.inf]


def test_a_next_step_between_two_is_the_later_one():
    class Growing(SessionRunHook):
        def next_look(self, global_step):
            return global_step * 1.1

    assert [next_look([Growing()], step) for step in (1, 10, 15)] == [2, 11, 17]


@pytest.mark.parametrize("look", [5, 4.0, math.nan])
def test_a_next_step_that_is_no_later_one_is_refused(look):
    class Late(SessionRunHook):
        def next_look(self, global_step):
            return look

    with pytest.raises(ValueError, match=rf"Late.next_look\(5\) returned {look}; return a later step, or math.inf"):
        next_look([et.ProgressHook(), Late()], 5)


def test_the_hooks_of_the_package_look_where_they_act(tmp_path):
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        timing = et.TimingHook(tmp_path, every_n_steps=50)
        timing.begin()
        assert next_look([timing, et.ProgressHook()], 120) == 170  # 50 steps after the last scalars
        logger = et.LoggerHook(Logging(), every_n_steps=8)
        assert [next_look([timing, logger], step) for step in (120, 127)] == [128, 128]
        stock = tf.compat.v1.train.LoggingTensorHook([], every_n_iter=10)  # it counts calls
        assert next_look([logger, stock], 120) == 121


@pytest.mark.parametrize("keras", [tf_keras, keras3])
def test_callbacks_look_at_epochs_unless_they_look_at_batches(keras, tmp_path):
    class OwnCheckpoint(keras.callbacks.ModelCheckpoint):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)

    path = tmp_path / "best.weights.h5"
    checkpoint = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
    quiet = [keras.callbacks.EarlyStopping(), keras.callbacks.CSVLogger(tmp_path / "log.csv"), checkpoint]
    looking = [
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: None),
        keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_freq=3),
        OwnCheckpoint(path, save_weights_only=True),
    ]
    assert [next_look([et.CallbacksHook(quiet, 10)], step) for step in (5, 10)] == [10, 20]
    assert next_look([et.CallbacksHook(quiet)], 5) == math.inf  # an evaluation ends the epoch
    for callback in looking:
        assert next_look([et.CallbacksHook([*quiet, callback], 10)], 5) == 6


def test_what_is_not_a_hook_is_refused():
    hook = SessionRunHook()
    assert check_hooks(None) == () and check_hooks([hook]) == (hook,)
    with pytest.raises(TypeError, match="Hooks must be a SessionRunHook, given: .*; pass Keras callbacks as"):
        check_hooks([tf_keras.callbacks.History()])
