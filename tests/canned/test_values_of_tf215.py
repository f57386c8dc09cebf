"""Losses after ten steps, as TensorFlow 2.15.1 with its own tf.estimator computes them.

Measured there on the same examples and columns, with the initial values of `initial_values`, on one CPU.
"""

import numpy as np
import pytest
import tensorflow as tf

v1 = tf.compat.v1

EMBEDDING = "dnn/input_from_feature_columns/input_layer/c_embedding/embedding_weights"
DNN = {
    EMBEDDING: (3, 2),
    "dnn/hiddenlayer_0/kernel": (10, 4),
    "dnn/hiddenlayer_0/bias": (4,),
    "dnn/hiddenlayer_1/kernel": (4, 3),
    "dnn/hiddenlayer_1/bias": (3,),
    "dnn/logits/kernel": (3, 1),
    "dnn/logits/bias": (1,),
}
BATCH_NORM = {
    "dnn/hiddenlayer_0/batchnorm_0/beta": (4,),
    "dnn/hiddenlayer_0/batchnorm_0/gamma": (4,),
    "dnn/hiddenlayer_1/batchnorm_1/beta": (3,),
    "dnn/hiddenlayer_1/batchnorm_1/gamma": (3,),
}
LINEAR = {
    "linear/linear_model/a/weights": (2, 1),
    "linear/linear_model/b_bucketized/weights": (3, 1),
    "linear/linear_model/b_bucketized_X_c/weights": (5, 1),
    "linear/linear_model/bias_weights": (1,),
    "linear/linear_model/c/weights": (3, 1),
}


def generations(slow):
    """Both generations; one is marked slow, because other tests also check its values."""
    cases = [pytest.param(name, marks=[pytest.mark.slow] if name == slow else []) for name in ("v2", "v1")]
    return pytest.mark.parametrize("generation", cases, indirect=True)


@pytest.fixture
def initial_values(tmp_path):
    """Writes a checkpoint of variables of these shapes, 0.5 sin(1 + index) each."""

    def write(shapes):
        with tf.Graph().as_default(), v1.Session() as session:
            for name, shape in shapes.items():
                values = 0.5 * np.sin(1.0 + np.arange(np.prod(shape)))
                v1.get_variable(name, initializer=values.reshape(shape).astype("float32"))
            session.run(v1.global_variables_initializer())
            return v1.train.Saver().save(session, str(tmp_path / "initial"))

    return write


def loss(estimator, input_fn):
    estimator.train(input_fn, steps=10)
    return estimator.evaluate(input_fn, steps=2)["loss"]


def expected(generation, v2_loss, v1_loss):
    return pytest.approx(v1_loss if generation.is_v1 else v2_loss, rel=1e-5)


@pytest.mark.parametrize("optimizer", ["Ftrl", pytest.param(None, marks=pytest.mark.slow)])
def test_linear_classifier(generation, columns, examples, optimizer):
    estimator = generation.LinearClassifier(columns.wide, optimizer=optimizer)
    assert loss(estimator, examples()) == expected(generation, 0.5438205003738403, 3.930304765701294)


@pytest.mark.slow
@generations(slow="v1")
def test_linear_classifier_with_weights_and_a_combiner(generation, columns, examples):
    def input_fn():
        return examples()().map(lambda features, label: ({**features, "w": tf.abs(features["b"])}, label))

    estimator = generation.LinearClassifier(columns.wide, weight_column="w", sparse_combiner="mean")
    assert loss(estimator, input_fn) == expected(generation, 0.35414040088653564, 2.500058650970459)


@pytest.mark.slow
def test_dnn_classifier(generation, columns, examples, initial_values):
    estimator = generation.DNNClassifier([4, 3], columns.deep, warm_start_from=initial_values(DNN))
    assert loss(estimator, examples()) == expected(generation, 0.6741194725036621, 4.712071895599365)


@pytest.mark.slow
@generations(slow="v2")
def test_dnn_classifier_with_adam(generation, columns, examples, initial_values):
    estimator = generation.DNNClassifier([4, 3], columns.deep, warm_start_from=initial_values(DNN), optimizer="Adam")
    assert loss(estimator, examples()) == expected(generation, 0.6664894819259644, 3.827146053314209)


@pytest.mark.slow
@generations(slow="v1")
def test_dnn_regressor_with_rmsprop_and_tanh(generation, columns, examples, initial_values):
    estimator = generation.DNNRegressor(
        [4, 3], columns.deep, warm_start_from=initial_values(DNN), optimizer="RMSProp", activation_fn=tf.nn.tanh
    )
    assert loss(estimator, examples()) == expected(generation, 0.23228424787521362, 1.208150863647461)


@pytest.mark.slow
@generations(slow="v2")
def test_dnn_classifier_with_batch_norm(generation, columns, examples, initial_values):
    start = initial_values(DNN | BATCH_NORM)
    estimator = generation.DNNClassifier([4, 3], columns.deep, warm_start_from=start, batch_norm=True)
    assert loss(estimator, examples()) == expected(generation, 0.6959787011146545, 5.2908172607421875)


@pytest.mark.slow
@generations(slow="v1")
def test_wide_and_deep_classifier(generation, columns, examples, initial_values):
    estimator = generation.DNNLinearCombinedClassifier(
        linear_feature_columns=columns.wide,
        dnn_feature_columns=columns.deep,
        dnn_hidden_units=[4, 3],
        warm_start_from=initial_values(DNN | LINEAR),
    )
    assert loss(estimator, examples()) == expected(generation, 0.6805552840232849, 6.05061674118042)


@pytest.mark.slow
@generations(slow="v2")
def test_wide_and_deep_with_one_of_them(generation, columns, examples, initial_values):
    deep = generation.DNNLinearCombinedClassifier(
        dnn_feature_columns=columns.deep, dnn_hidden_units=[4, 3], warm_start_from=initial_values(DNN)
    )
    assert loss(deep, examples()) == expected(generation, 0.6741194725036621, 5.373570442199707)
    wide = generation.DNNLinearCombinedRegressor(linear_feature_columns=columns.wide)
    assert loss(wide, examples()) == expected(generation, 0.5129895806312561, 4.037593841552734)


def test_baselines(generation, examples):
    """On one feature: with several, 2.15's v2 classes fail."""
    input_fn = examples(keys="b")
    assert loss(generation.BaselineClassifier(), input_fn) == expected(
        generation, 0.6619492769241333, 5.292506217956543
    )
    assert loss(generation.BaselineRegressor(), input_fn) == expected(
        generation, 0.23438814282417297, 1.8750674724578857
    )


def test_area_under_the_precision_recall_curve(generation):
    """TensorFlow 1 adds up trapezoids; Keras interpolates."""
    labels = np.array([1, 0, 0] * 4 + [0, 1, 1] * 2 + [0, 1], np.int32)

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(({"x": np.linspace(-1, 1, 20, dtype="float32")}, labels)).batch(7)

    estimator = generation.LinearClassifier([tf.feature_column.numeric_column("x")])
    metrics = estimator.train(input_fn).evaluate(input_fn)
    assert metrics["auc_precision_recall"] == expected(generation, 0.5506765842437744, 0.6120603084564209)
