"""InMemoryEvaluatorHook evaluates during training."""

import os

import pytest
import tensorflow as tf
from models import FAR, growing, label, scalars

import estimator_train as et


def test_it_evaluates_before_the_first_step_every_so_many_and_at_the_end(tmp_path):
    estimator = growing("model_fn", et.RunConfig(tmp_path))
    hook = et.experimental.InMemoryEvaluatorHook(estimator, label(0.0, 2), name="inner", every_n_iter=2)
    estimator.train(FAR, hooks=[hook], steps=5)
    assert dict(scalars(estimator.eval_dir("inner"))) == {0: 0, 2: -2, 4: -4, 5: -5}
    state = tf.train.get_checkpoint_state(estimator.model_dir)  # training's own checkpoints are all that there are
    assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == ["model.ckpt-0", "model.ckpt-5"]


def test_the_tables_that_training_fills_are_evaluated(tmp_path):
    def model_fn(features, labels, mode):
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0)
        step = tf.compat.v1.train.get_or_create_global_step()
        found, filled = table.lookup(step), table.insert(step + 1, tf.cast(step + 1, tf.float32))
        with tf.control_dependencies([filled]):
            train_op = tf.compat.v1.assign_add(step, 1)
        return et.EstimatorSpec(mode, predictions=found, loss=found + 0 * tf.reduce_sum(features), train_op=train_op)

    estimator = et.Estimator(model_fn, config=et.RunConfig(tmp_path))
    hook = et.experimental.InMemoryEvaluatorHook(estimator, label(0.0, 1), name="inner", every_n_iter=2)
    estimator.train(FAR, hooks=[hook], steps=4)
    assert dict(scalars(estimator.eval_dir("inner"))) == {0: -1, 2: 2, 4: 4}


@pytest.mark.slow
@pytest.mark.parametrize("async_checkpoints", [False, True])
def test_a_keras_model_is_evaluated_as_it_is_at_the_step(async_checkpoints, classifier, data, batches, tmp_path):
    config = et.RunConfig(tmp_path, save_checkpoints_steps=2, async_checkpoints=async_checkpoints)
    estimator = et.model_to_estimator(classifier(metrics=()), config=config)
    hook = et.experimental.InMemoryEvaluatorHook(estimator, batches(data, 32), name="inner", every_n_iter=2)
    estimator.train(batches(data, 16), hooks=[hook], steps=4)
    losses = dict(scalars(estimator.eval_dir("inner")))
    assert list(losses) == [0, 2, 4]
    for step, loss in losses.items():
        results = estimator.evaluate(batches(data, 32), checkpoint_path=str(tmp_path / f"model.ckpt-{step}"))
        assert results["loss"] == pytest.approx(loss, rel=1e-6)


def test_an_interval_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="invalid every_n_iter=0"):
        et.experimental.InMemoryEvaluatorHook(growing("model_fn", et.RunConfig(tmp_path)), FAR, every_n_iter=0)
