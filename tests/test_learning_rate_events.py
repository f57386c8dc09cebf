"""The learning rate of a Keras model's last update is in its events, for every kind of optimizer."""

import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train._engine.events import read_eval_metrics

HALVED = keras.optimizers.schedules.ExponentialDecay(1.0, decay_steps=1, decay_rate=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "replicas", "expected"),
    [
        (lambda: keras.optimizers.Adam(0.25), None, {1: 0.25, 3: 0.25}),
        (lambda: keras.optimizers.SGD(HALVED), 2, {1: 1.0, 3: 0.25}),
        (lambda: keras.optimizers.legacy.SGD(HALVED), None, {1: 1.0, 3: 0.25}),
        (lambda: tf.compat.v1.train.GradientDescentOptimizer(0.25), None, {1: None, 3: None}),  # it does not tell
    ],
)
def test_events_have_the_learning_rate_of_the_last_update(
    make, replicas, expected, classifier, data, batches, mirrored, tmp_path
):
    config = et.RunConfig(save_summary_steps=2, steps_per_loop=2, train_distribute=mirrored(replicas))
    estimator = et.model_to_estimator(classifier(make()), model_dir=tmp_path, config=config)
    estimator.train(batches(data, 8, epochs=2), max_steps=4)
    values = read_eval_metrics(f"{tmp_path}/events.out.tfevents.*")
    assert {step: values[step].get("learning_rate") for step in values} == expected
