"""Estimator.predictor: one checkpoint, loaded once, predicts batches in memory; of Keras models and of model_fns."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et

v1 = tf.compat.v1


class Ended(v1.train.SessionRunHook):
    times = 0

    def end(self, session):
        Ended.times += 1


@pytest.fixture
def counting(tmp_path):
    """An Estimator whose w is the global step, and the list of the features that its graphs for PREDICT were built on.

    The predictions are y, w times the sum of x over each example, and the global step.
    """
    built = []

    def model_fn(features, mode):
        step = v1.train.get_or_create_global_step()
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        if mode == et.ModeKeys.PREDICT:
            built.append(features["x"])
            is_sparse = isinstance(features["x"], tf.SparseTensor)
            total = (tf.sparse.reduce_sum if is_sparse else tf.reduce_sum)(features["x"], axis=1)
            steps = tf.fill(tf.shape(total), step)
            return et.EstimatorSpec(mode, {"y": w * total, "step": steps}, prediction_hooks=[Ended()])
        return et.EstimatorSpec(mode, loss=w + 0.0, train_op=tf.group(v1.assign_add(w, 1.0), v1.assign_add(step, 1)))

    return et.Estimator(model_fn, tmp_path), built


def ones():
    return tf.data.Dataset.from_tensors({"x": [[1.0, 1.0]]}).repeat()


def test_a_predictor_of_a_model_fn_keeps_one_session_and_its_checkpoint(counting):
    estimator, built = counting
    estimator.train(ones, steps=2)
    ended = Ended.times
    with estimator.predictor() as predict:
        assert predict.checkpoint_path == estimator.latest_checkpoint()
        assert predict({"x": [[1.0, 3.0]]})["y"].tolist() == [8.0]
        estimator.train(ones, steps=1)
        assert estimator.latest_checkpoint() != predict.checkpoint_path
        predictions = predict({"x": np.ones([5, 2], "float32")})
        assert {name: values.tolist() for name, values in predictions.items()} == {"y": [4.0] * 5, "step": [2] * 5}
        assert [x.shape.as_list() for x in built] == [[None, 2]]
        assert Ended.times == ended
    assert Ended.times == ended + 1
    with pytest.raises(ValueError, match=r"The Predictor is closed; create another with Estimator.predictor\(\)"):
        predict({"x": [[1.0, 3.0]]})
    newer = estimator.predictor(predict_keys="y")
    assert list(newer({"x": tf.constant([[1.0, 3.0]])}).items()) == [("y", [12.0])]
    older = estimator.predictor(checkpoint_path=predict.checkpoint_path)
    assert older({"x": [[1.0, 3.0]]})["y"] == [8.0]


def test_a_predictor_rebuilds_once_for_new_sizes_and_per_dtype(counting):
    estimator, built = counting
    estimator.train(ones, steps=1)
    predict = estimator.predictor(predict_keys=["y"])
    with ThreadPoolExecutor(4) as threads:
        lengths = [3, 3, 3, 3]
        first = threads.map(lambda length: predict({"x": np.ones([2, length], "float32")})["y"].tolist(), lengths)
        assert list(first) == [[3.0, 3.0]] * 4
    for length in (4, 1, 7):
        assert predict({"x": np.ones([1, length], "float32")})["y"] == [length]
    assert [x.shape.as_list() for x in built] == [[None, 3], [None, None]]
    sparse = tf.sparse.from_dense([[1.0, 0.0, 5.0], [0.0, 0.0, 2.0]])
    assert predict({"x": sparse})["y"].tolist() == [6.0, 2.0]
    assert isinstance(built[2], tf.SparseTensor) and len(built) == 3


class Traced(keras.layers.Layer):
    traces = 0

    def call(self, inputs):
        Traced.traces += 1
        return inputs


def rows(count=3):
    x = np.eye(3, dtype="float32")[:count]
    return lambda: tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(3)


@pytest.mark.slow
def test_a_keras_predictor_traces_once_and_keeps_its_checkpoint(tmp_path):
    # Not built: its variables come with the first trace.
    model = keras.Sequential([Traced(), keras.layers.Dense(2, activation="tanh", name="out")])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    estimator.train(rows(), steps=1)
    first, x = estimator.latest_checkpoint(), np.eye(3, dtype="float32")
    expected = [example["out"] for example in estimator.predict(rows())]
    predict = estimator.predictor()
    np.testing.assert_allclose(predict(x)["out"], expected, rtol=1e-6)
    traces = Traced.traces
    np.testing.assert_allclose(predict([[0.0, 1.0, 0.0]])["out"], expected[1:2], rtol=1e-6)
    estimator.train(rows(), steps=1)
    changed = estimator.predictor()(x)["out"]
    assert np.abs(changed - expected).max() > 1e-3
    estimator.evaluate(rows())
    traces_of_others = Traced.traces
    with tf.Graph().as_default() as graph:  # of the caller's
        np.testing.assert_allclose(predict({"any": x})["out"], expected, rtol=1e-6)
        assert not graph.get_operations()
    assert Traced.traces == traces_of_others + 1  # a dict is another structure
    np.testing.assert_allclose(predict(x[:2])["out"], expected[:2], rtol=1e-6)
    assert Traced.traces == traces_of_others + 1 and traces < traces_of_others
    assert predict.checkpoint_path == first


def test_a_predictor_without_a_checkpoint_has_the_given_weights(classifier, tmp_path):
    model = classifier()
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    x = np.ones([1, 4], "float32")
    predict = estimator.predictor()
    assert predict.checkpoint_path is None
    np.testing.assert_allclose(*predict(x).values(), model.predict(x, verbose=0), rtol=1e-6)
    with pytest.raises(
        ValueError, match=r"takes batches, but a feature is .*5\.0.*; pass one example as a batch of one"
    ):
        predict(5.0)
    with pytest.raises(ValueError, match=r"Expected to run at least one output from .* provided \['no'\]"):
        estimator.predictor(predict_keys="no")(x)
    with pytest.raises(ValueError, match="inside the scope"), tf.distribute.OneDeviceStrategy("CPU:0").scope():
        estimator.predictor()


def test_a_subclass_may_have_a_predictor_of_its_own(tmp_path):
    class Served(et.Estimator):
        def predictor(self):
            return "its own"

    assert Served(lambda features: None, tmp_path).predictor() == "its own"
