"""Checkpoints of canned estimators with shared embeddings, as TensorFlow 2.15 writes them, are read."""

import numpy as np
import pytest
import tensorflow as tf

import estimator_train as et

v1 = tf.compat.v1

EMBEDDING = "dnn/input_from_feature_columns/a_b_shared_embedding"
ADAGRAD = [f"training/Adagrad/{name}" for name in ("decay", "learning_rate")]
FTRL = [
    "beta",
    "decay",
    "iter",
    "l1_regularization_strength",
    "l2_regularization_strength",
    "learning_rate",
    "learning_rate_power",
]
DNN = [f"dnn/{layer}/{weight}" for layer in ("hiddenlayer_0", "logits") for weight in ("bias", "kernel")]
LINEAR = ["linear/linear_model/a/weights", "linear/linear_model/bias_weights"]
SAVED_BY_TF215 = [
    *("a_b_shared_embedding", "global_step", *DNN, *LINEAR, *ADAGRAD),
    *(f"training/Adagrad/{name}/accumulator" for name in DNN),
    *(f"training/Ftrl/{name}" for name in FTRL),
    *(f"training/Ftrl/{name}/{slot}" for name in LINEAR for slot in ("accumulator", "linear")),
]


def input_fn():
    features = {"a": np.arange(8) % 5, "b": np.arange(8) % 3}
    return tf.data.Dataset.from_tensor_slices((features, np.arange(8) % 2)).batch(4)


def combined(model_dir, dimension=2, train_distribute=None, **options):
    config = et.RunConfig(
        train_distribute=train_distribute, save_summary_steps=None, checkpoint_save_graph_def=False
    )  # no test reads them
    fc = tf.feature_column
    with tf.Graph().as_default():  # TensorFlow makes shared columns nowhere else
        shared = fc.shared_embeddings([fc.categorical_column_with_identity(key, 5) for key in "ab"], dimension)
    wide = [fc.categorical_column_with_identity("a", 5)]
    deep = {"dnn_feature_columns": shared, "dnn_hidden_units": [4]}
    return et.DNNLinearCombinedClassifier(model_dir, wide, **deep, config=config, **options)


def saved_as_tf215(values, directory):
    """Writes a checkpoint with the names of 2.15, which leaves out the scope and the slots of the embedding."""
    values = {name: value for name, value in values.items() if f"{EMBEDDING}/" not in name}
    values["a_b_shared_embedding"] = values.pop(EMBEDDING)
    assert sorted(values) == sorted(SAVED_BY_TF215)
    with tf.Graph().as_default(), v1.Session() as session:
        variables = {name: v1.get_variable(name, initializer=value) for name, value in values.items()}
        session.run(v1.global_variables_initializer())
        v1.train.Saver(variables).save(session, str(directory / "model.ckpt"), global_step=2)
    return str(directory)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return combined(str(tmp_path_factory.mktemp("ours"))).train(input_fn)


@pytest.fixture(scope="module")
def values(trained):
    return {name: trained.get_variable_value(name) for name in trained.get_variable_names()}


def logits(estimator):
    return [example["logits"] for example in estimator.predict(input_fn)]


@pytest.mark.slow
def test_a_checkpoint_of_tf215_with_a_shared_embedding_is_read(trained, values, tmp_path):
    old = combined(saved_as_tf215(values, tmp_path / "run"))
    assert old.evaluate(input_fn) == trained.evaluate(input_fn)
    np.testing.assert_array_equal(logits(old), logits(trained))
    receiver_fn = et.export.build_raw_serving_input_receiver_fn({key: tf.zeros([1], tf.int64) for key in "ab"})
    folder = old.export_saved_model(tmp_path / "export", receiver_fn).decode()
    features = {key: tf.constant(value) for key, value in next(iter(input_fn()))[0].items()}
    served = tf.saved_model.load(folder).signatures["predict"](**features)["logits"]
    np.testing.assert_allclose(served, logits(trained)[:4], atol=1e-6)


@pytest.mark.slow
def test_a_tf215_checkpoint_with_a_shared_embedding_resumes(values, mirrored, tmp_path):
    old = saved_as_tf215(values, tmp_path)
    estimator = combined(old, train_distribute=mirrored(2)).train(input_fn, steps=1)
    assert set(estimator.get_variable_names()) == set(values) and estimator.get_variable_value("global_step") == 3
    moved = np.abs(estimator.get_variable_value(EMBEDDING) - values[EMBEDDING])
    assert moved.any() and moved.max() < 0.01
    assert combined(str(tmp_path)).train(input_fn, steps=1).get_variable_value("global_step") == 4


@pytest.mark.slow
def test_a_warm_start_takes_the_shared_embedding_of_tf215(trained, values, tmp_path):
    warm = combined(None, warm_start_from=saved_as_tf215(values, tmp_path))
    np.testing.assert_array_equal(logits(warm), logits(trained))


@pytest.mark.slow
def test_a_shared_embedding_of_another_size_is_refused(values, tmp_path):
    with pytest.raises(ValueError, match=r"a_b_shared_embedding is \(5, 2\) in the checkpoint and \(5, 3\)"):
        combined(saved_as_tf215(values, tmp_path), dimension=3).evaluate(input_fn)
