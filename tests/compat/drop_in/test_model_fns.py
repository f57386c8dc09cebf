"""Model and logit functions of canned estimators. The numbers are those of TensorFlow 2.15.1's own."""

import numpy as np
import pytest
import tensorflow as tf

import estimator_train as et

v1 = tf.compat.v1

COLUMNS = [tf.feature_column.numeric_column("x")]


def input_fn():
    features = {"x": np.array([[1.0], [2.0], [3.0], [4.0]], np.float32)}
    return tf.data.Dataset.from_tensors((features, np.array([[0], [1], [1], [1]], np.int32))).repeat(3)


def fitted(model_fn, folder):
    estimator = v1.estimator.Estimator(model_fn, folder, et.RunConfig(tf_random_seed=1))
    return estimator.train(input_fn, steps=2)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_fork_of_a_canned_dnn_is_that_canned_dnn(version, tmp_path):
    from tensorflow_estimator.python.estimator.canned import dnn, head
    from tensorflow_estimator.python.estimator.head import head_utils

    def model_fn(features, labels, mode, config):
        arguments = {"hidden_units": [2], "feature_columns": COLUMNS, "batch_norm": True, "config": config}
        if version == "v2":
            of_v2 = head_utils.binary_or_multi_class_head(2, None, None, "sum_over_batch_size")
            return dnn.dnn_model_fn_v2(features, labels, mode, of_v2, **arguments)
        of_v1 = head._binary_logistic_or_multi_class_head(2, None, None, "weighted_sum")
        return dnn._dnn_model_fn(features, labels, mode, of_v1, **arguments)

    canned = dnn.DNNClassifierV2 if version == "v2" else dnn.DNNClassifier
    config = et.RunConfig(tf_random_seed=1)
    original = canned([2], COLUMNS, tmp_path / "canned", batch_norm=True, config=config).train(input_fn, steps=2)
    fork = fitted(model_fn, tmp_path / "fork")
    assert fork.get_variable_names() == original.get_variable_names()
    for name in fork.get_variable_names():
        assert np.allclose(fork.get_variable_value(name), original.get_variable_value(name)), name


@pytest.mark.slow
def test_a_fork_of_a_canned_linear_model_is_that_canned_model(tmp_path):
    from tensorflow_estimator.python.estimator.canned import head, linear

    def of_v1(features, labels, mode, config):
        of_v1 = head._binary_logistic_or_multi_class_head(2, None, None, "weighted_sum")
        return linear._linear_model_fn(features, labels, mode, of_v1, COLUMNS, "Ftrl", None, config)

    def of_v2(features, labels, mode, config):
        return linear._linear_model_fn_v2(features, labels, mode, et.BinaryClassHead(), COLUMNS, "Ftrl", config)

    canned = {of_v1: linear.LinearClassifier, of_v2: linear.LinearClassifierV2}
    for index, (model_fn, kind) in enumerate(canned.items()):
        fork = fitted(model_fn, tmp_path / f"fork{index}")
        original = kind(COLUMNS, tmp_path / f"canned{index}").train(input_fn, steps=2)
        assert fork.get_variable_names() == original.get_variable_names()
        weight = "linear/linear_model/x/weights"
        assert fork.get_variable_value(weight) == original.get_variable_value(weight) != 0


def test_logit_fns_under_all_their_names():
    from tensorflow_estimator.python.estimator.canned import dnn, linear

    of_dnn = [
        v1.estimator.experimental.dnn_logit_fn_builder(3, [4], COLUMNS, tf.nn.relu, None, None, False),
        dnn.dnn_logit_fn_builder(3, [4], COLUMNS, tf.nn.relu, None, None, False),
        dnn.dnn_logit_fn_builder_v2(3, [4], COLUMNS, tf.nn.relu, None, False),
    ]
    of_linear = [
        v1.estimator.experimental.linear_logit_fn_builder(3, COLUMNS),
        linear.linear_logit_fn_builder(3, COLUMNS, "mean"),
        linear.linear_logit_fn_builder_v2(3, COLUMNS),
    ]
    for logit_fn in of_dnn + of_linear:
        with tf.Graph().as_default():
            features = {"x": tf.ones([5, 1])}
            assert et.experimental.call_logit_fn(logit_fn, features, "eval", None, None).shape.as_list() == [5, 3]


def test_optimizers_by_name_and_as_they_are():
    import tf_keras as keras
    from tensorflow_estimator.python.estimator.canned import optimizers

    get, get_v2 = optimizers.get_optimizer_instance, optimizers.get_optimizer_instance_v2
    adam = v1.train.AdamOptimizer()
    assert isinstance(get("RMSProp", 0.1), v1.train.RMSPropOptimizer)
    assert get(adam) is adam and get(lambda: adam) is adam
    sgd = keras.optimizers.legacy.SGD(0.5)
    assert get_v2("Adam").learning_rate.numpy() == pytest.approx(0.001)
    assert get_v2("Adam", 0.1).learning_rate.numpy() == pytest.approx(0.1)
    assert get_v2(sgd) is sgd and get_v2(lambda: sgd) is sgd
    assert isinstance(get_v2(keras.optimizers.legacy.Ftrl), keras.optimizers.legacy.Ftrl)
    twin = get_v2(keras.optimizers.SGD(0.25))
    assert isinstance(twin, keras.optimizers.legacy.SGD) and twin.learning_rate.numpy() == 0.25
    for wrong, message in [
        (lambda: get("Adam"), "learning_rate must be specified when opt is string"),
        (lambda: get("Addam", 0.1), "Unsupported optimizer name: Addam. Supported names are"),
        (lambda: get(sgd), "The given object is not an Optimizer instance"),
        (lambda: get_v2("Addam"), "Unsupported optimizer name: Addam"),
        (lambda: get_v2(adam), "The given object is not a tf.keras.optimizers.Optimizer instance"),
        (lambda: get_v2(3), "The given object is not a tf.keras.optimizers.Optimizer instance. Given: 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
