"""The one kernel that updates for Adam and AdamW: the same weights as Keras' dozen ops, to the last digits."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et

ADAM, ADAMW = keras.optimizers.Adam, keras.optimizers.AdamW
ALL = {(4, 8), (8,), (8, 3), (3,)}  # the shapes of the classifier's weights


class OwnStep(ADAM):
    """Updates by a step of its own, which must not be replaced."""

    def update_step(self, gradient, variable):
        variable.assign_sub(gradient)


@pytest.fixture
def updated(monkeypatch):
    """The shapes of the gradients that the kernel has taken, as steps were traced."""
    shapes, kernel = set(), tf.raw_ops.ResourceApplyAdam

    def noting(**arguments):
        shapes.add(tuple(arguments["grad"].shape))
        return kernel(**arguments)

    monkeypatch.setattr(tf.raw_ops, "ResourceApplyAdam", noting)
    return shapes


def words(optimizer):
    """A model whose embedding has sparse gradients, and its words."""
    numbers = np.arange(48).reshape(-1, 3) % 11
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Embedding(11, 2), keras.layers.Flatten(), keras.layers.Dense(1)]
    )
    model.compile(optimizer, "mse")
    return model, lambda: tf.data.Dataset.from_tensors((numbers, numbers[:, :1] / 11)).repeat()


@pytest.mark.parametrize(
    ("make_optimizer", "replicas", "fused"),
    [
        (lambda: ADAM(keras.optimizers.schedules.CosineDecay(0.01, 20), beta_1=0.8, epsilon=1e-4), None, ALL),
        (lambda: ADAMW(0.01, weight_decay=0.1, clipnorm=0.5), 2, ALL),
        (lambda: ADAM(0.01, amsgrad=True), None, set()),
        (lambda: OwnStep(0.01), None, set()),
    ],
)
def test_weights_are_those_of_fit(
    make_optimizer, replicas, fused, classifier, data, batches, mirrored, updated, tmp_path
):
    model = classifier(make_optimizer())
    estimator = et.model_to_estimator(
        model, model_dir=tmp_path, config=et.RunConfig(train_distribute=mirrored(replicas))
    )
    estimator.train(batches(data, 24 // (replicas or 1), epochs=None), steps=10)
    assert updated == fused
    model.fit(batches(data, 24, epochs=None)(), steps_per_epoch=10, verbose=0)
    trained = classifier()
    trained.load_weights(estimator.latest_checkpoint()).expect_partial()
    for ours, theirs in zip(trained.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_sparse_gradients_update_as_in_keras(updated, tmp_path):
    model, input_fn = words(ADAM(0.01))
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    estimator.train(input_fn, steps=5)
    model.fit(input_fn(), steps_per_epoch=5, verbose=0)
    trained, _ = words(ADAM(0.01))
    trained.load_weights(estimator.latest_checkpoint()).expect_partial()
    for ours, theirs in zip(trained.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert updated == {(6, 1), (1,)}  # the dense layer's
