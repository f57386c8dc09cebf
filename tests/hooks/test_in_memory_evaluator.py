"""InMemoryEvaluatorHook evaluates during training."""

import os

import pytest
import tensorflow as tf
from models import scalars

import estimator_train as et

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
    train_op = tf.group(w.assign_add(1.0), v1.assign_add(v1.train.get_global_step(), 1))
    return et.EstimatorSpec(mode, loss=w + 0 * tf.reduce_mean(features), train_op=train_op)


def input_fn(batches):
    return lambda: tf.data.Dataset.from_tensors((tf.ones([1]), tf.zeros([1]))).repeat(batches)


def test_it_evaluates_before_the_first_step_every_so_many_and_at_the_end(tmp_path):
    estimator = et.Estimator(model_fn, tmp_path)
    hook = et.experimental.InMemoryEvaluatorHook(estimator, input_fn(2), name="inner", every_n_iter=2)
    estimator.train(input_fn(None), hooks=[hook], steps=5)
    assert dict(scalars(estimator.eval_dir("inner"))) == {0: 0, 2: 2, 4: 4, 5: 5}
    state = tf.train.get_checkpoint_state(estimator.model_dir)  # training's own checkpoints are all that there are
    assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == ["model.ckpt-0", "model.ckpt-5"]


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
        et.experimental.InMemoryEvaluatorHook(et.Estimator(model_fn, tmp_path), input_fn(1), every_n_iter=0)
