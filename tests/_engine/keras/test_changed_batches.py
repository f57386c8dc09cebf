"""Batches are augmented or weighted on the training devices, and only in training."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import Fetched
from runs import copy_as_of

import estimator_train as et
from estimator_train._engine.session import step_outputs
from estimator_train.input_fns import arrays, augmented, class_weighted

rng = np.random.default_rng(4)
IMAGES = 0.3 + 0.4 * rng.random((24, 6, 6, 1), np.float32)
LABELS = np.eye(3, dtype="float32")[rng.integers(3, size=24)]
WEIGHTS = [0.5, 1.0, 3.0]


def model_values():
    """Returns the tensors of the loss and the metrics of a step, by name."""
    tensors = tf.compat.v1.get_default_graph().get_collection(step_outputs.MODEL_VALUES)
    return {tensor.op.name: tensor for tensor in tensors}


@pytest.fixture
def brightness():
    """Builds a model whose loss is the mean brightness for labels 0, and whose metric is the mean of its square."""
    model = keras.Sequential([keras.Input((6, 6, 1)), keras.layers.GlobalAveragePooling2D()])
    model.add(keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"))
    model.compile(keras.optimizers.SGD(0.0), "mae", metrics=["mse"])
    return model


def classifier(loss="categorical_crossentropy"):
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((6, 6, 1)), keras.layers.Flatten(), keras.layers.Dense(3, "softmax")])
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


def weights_of(estimator):
    names = [name for name in estimator.get_variable_names() if "layer_with_weights-0" in name and "OPT" not in name]
    return {name: estimator.get_variable_value(name) for name in names}


@pytest.mark.slow
def test_training_sees_changed_images_and_evaluation_the_original_ones(brightness):
    plain = arrays(IMAGES, np.zeros((24, 1), np.float32), batch_size=8)
    changed = augmented(plain, "brightness")
    hook, estimator = Fetched(model_values), et.model_to_estimator(brightness)
    estimator.train(changed, hooks=[hook])
    means = IMAGES.reshape(3, -1).mean(axis=1)
    assert all(abs(step["loss"] - mean) > 1e-3 for step, mean in zip(hook.values, means, strict=True))
    assert estimator.evaluate(changed) == estimator.evaluate(plain)
    predictions = [next(iter(row.values())) for row in estimator.predict(changed)]
    np.testing.assert_allclose(np.ravel(predictions), IMAGES.mean(axis=(1, 2, 3)), rtol=1e-5)


@pytest.mark.slow
def test_replicas_change_images_differently(brightness, mirrored):
    same = np.full((4, 6, 6, 1), 0.5, np.float32)
    config = et.RunConfig(train_distribute=mirrored(2))
    hook = Fetched(model_values)
    estimator = et.model_to_estimator(brightness, config=config)
    estimator.train(augmented(arrays(same, np.zeros((4, 1)), batch_size=1), "brightness"), hooks=[hook])
    # The mean of squares exceeds the square of the mean if the two images of a step differ.
    assert [step["mse"] - step["loss"] ** 2 > 1e-6 for step in hook.values] == [True, True]


@pytest.mark.slow
def test_a_training_that_is_resumed_sees_the_same_changes(tmp_path):
    def train(folder, **config):
        config = et.RunConfig(folder, tf_random_seed=3, resume_input=True, accumulate_steps=2, **config)
        estimator = et.model_to_estimator(classifier(), config=config)
        input_fn = augmented(arrays(IMAGES, LABELS, batch_size=4, num_epochs=None, shuffle=True), "medium,mixup")
        estimator.train(input_fn, max_steps=5)
        return weights_of(estimator)

    whole = train(tmp_path / "whole", save_checkpoints_steps=2)
    resumed = train(copy_as_of(2, tmp_path / "whole", tmp_path / "resumed"), steps_per_loop=1)
    for name, value in resumed.items():
        np.testing.assert_allclose(value, whole[name], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "is_one_hot"), [(None, True), (2, False)])
def test_class_weights_train_as_those_of_fit(mirrored, replicas, is_one_hot):
    loss = "categorical_crossentropy" if is_one_hot else "sparse_categorical_crossentropy"
    labels = LABELS if is_one_hot else LABELS.argmax(axis=1)
    config = et.RunConfig(train_distribute=mirrored(replicas))
    estimator = et.model_to_estimator(classifier(loss), config=config)
    batch_size = 4 // (replicas or 1)
    plain = arrays(IMAGES, labels, batch_size=batch_size, num_epochs=None)
    estimator.train(class_weighted(plain, WEIGHTS), max_steps=10)
    fitted, unweighted = classifier(loss), classifier(loss)
    fitted.run_eagerly = unweighted.run_eagerly = True
    data = tf.data.Dataset.from_tensor_slices((IMAGES, labels)).batch(4).repeat()
    fitted.fit(data, steps_per_epoch=10, class_weight=dict(enumerate(WEIGHTS)), verbose=0)
    unweighted.fit(data, steps_per_epoch=10, verbose=0)
    kernel = next(value for name, value in weights_of(estimator).items() if "kernel" in name)
    np.testing.assert_allclose(kernel, fitted.get_weights()[0], atol=1e-5)
    assert np.abs(kernel - unweighted.get_weights()[0]).max() > 1e-3
    if replicas is None:
        expected = fitted.evaluate(data, steps=6, verbose=0)  # of all alike
        assert estimator.evaluate(class_weighted(plain, WEIGHTS), steps=6)["loss"] == pytest.approx(
            expected[0], abs=1e-5
        )


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_class_weights_multiply_given_weights_and_come_before_augmentation(batches, shape):
    images, labels = IMAGES[:4], np.eye(3, dtype="float32")[[0, 1, 2, 2]]
    given = np.float32([1, 2, 3, 4]).reshape(shape)
    input_fn = augmented(class_weighted(batches((images, labels, given), 4), WEIGHTS), "flip")
    (_, then, weights) = next(iter(input_fn()))
    np.testing.assert_array_equal(then, labels)
    np.testing.assert_allclose(weights, [0.5, 2, 9, 12])


@pytest.mark.parametrize(
    ("labels", "shape", "classes"),
    [
        ([[0.0], [2.0]], [None, None], [0, 2]),  # as of a generator without shapes
        ([[0.0, 1.0, 0.0]], [None, None], [1]),
        ([[0.05], [0.95]], [None, 1], [0, 1]),  # smoothed
        ([True, False], [None], [1, 0]),
    ],
)
def test_the_class_of_a_label_is_that_of_fit(labels, shape, classes):
    @tf.function(input_signature=[tf.TensorSpec(shape, tf.constant(labels).dtype)])
    def weights_of_labels(labels):
        return class_weighted(lambda: None, WEIGHTS).change((tf.zeros(3), labels), None)[2]

    np.testing.assert_array_equal(weights_of_labels(tf.constant(labels)), np.float32(WEIGHTS)[classes])


def test_a_dict_of_class_weights_means_what_it_means_to_fit():
    assert class_weighted(lambda: None, {2: 3.0, 0: 0.5, 1: 1}).change == class_weighted(lambda: None, WEIGHTS).change


@pytest.mark.parametrize("loss", ["sparse_categorical_crossentropy", keras.losses.SparseCategoricalCrossentropy()])
def test_class_weights_of_another_number_are_refused_before_training(loss, tmp_path):
    estimator = et.model_to_estimator(classifier(loss), model_dir=tmp_path)
    for weights in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(
            ValueError, match=f"there are {len(weights)} class weights and 3 classes; give one for each"
        ):
            estimator.train(class_weighted(arrays(IMAGES, LABELS.argmax(axis=1)), weights))


def test_class_weights_of_two_classes_fit_one_sigmoid(brightness, tmp_path):
    brightness.compile("sgd", "binary_crossentropy")
    estimator = et.model_to_estimator(brightness, model_dir=tmp_path)
    with pytest.raises(ValueError, match="there are 3 class weights and 2 classes"):
        estimator.train(class_weighted(arrays(IMAGES, LABELS[:, :1]), WEIGHTS))


@pytest.mark.parametrize("label", [-1, 3])
def test_a_class_without_a_weight_ends_training_on_any_device(label, monkeypatch):
    batch = tf.zeros(3), tf.constant([0, label])
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in .0, 3"):
        class_weighted(lambda: None, WEIGHTS).change(batch, None)
    monkeypatch.setattr(tf, "gather", lambda weights, indices: tf.constant([0.5, 0.0]))  # as on a GPU
    assert np.isnan(class_weighted(lambda: None, WEIGHTS).change(batch, None)[2]).tolist() == [False, True]


def test_the_estimator_of_a_model_fn_changes_batches_in_training_only():
    def input_fn(params):
        return tf.data.Dataset.from_tensors((np.full((8, 4, 4, 1), params, np.float32), np.zeros(8, np.float32)))

    def model_fn(features, labels, mode, params):
        step = tf.compat.v1.train.get_or_create_global_step()
        losses.append(loss := tf.identity(tf.reduce_mean(features), "brightness"))
        train_op = tf.compat.v1.assign_add(step, 1)
        return et.EstimatorSpec(mode, {"mean": tf.reduce_mean(features, [1, 2, 3])}, loss, train_op)

    losses, hook = [], Fetched(lambda: {"loss": losses[-1]})
    estimator = et.Estimator(model_fn, params=0.5)
    changed = augmented(input_fn, "brightness")
    estimator.train(changed, hooks=[hook])
    assert abs(hook.values[0]["loss"] - 0.5) > 1e-3
    assert estimator.evaluate(changed)["loss"] == 0.5
    assert [row["mean"] for row in estimator.predict(changed)] == [0.5] * 8
    arrays_fn = augmented(lambda: (np.full((8, 4, 4, 1), 0.5, np.float32), np.zeros(8, np.float32)), "brightness")
    assert estimator.evaluate(arrays_fn)["loss"] == 0.5
    with pytest.raises(ValueError, match="class_weighted is for Keras models; for a model_fn, let the input_fn return"):
        estimator.train(class_weighted(input_fn, WEIGHTS))


@pytest.mark.parametrize(
    ("weights", "labels", "message"),
    [
        ([1.0], None, "class weights must be two or more non-negative numbers"),
        ([1.0, -1.0], None, "non-negative numbers, got .1.0, -1.0."),
        ("balanced", None, "non-negative numbers, got 'balanced'"),
        ({1: 1.0, 2: 2.0}, None, "a key for each class index from 0, got .1, 2.; give other classes the weight 1"),
        ({"cat": 1.0, "dog": 2.0}, None, "a key for each class index from 0, got .'cat', 'dog'."),
        ([1.0, 2.0], np.eye(3), "there are 2 class weights and 3 classes"),
        ([1.0, 2.0], np.zeros((3, 2, 2)), "class weights need labels, one-hot or class indices"),
    ],
)
def test_class_weights_that_do_not_fit_are_refused(weights, labels, message):
    with pytest.raises(ValueError, match=message):
        class_weighted(lambda: None, weights).change((tf.zeros(3), tf.constant(labels)), None)
