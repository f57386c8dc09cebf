"""Arguments of canned estimators: signatures, optimizers, and errors for invalid arguments."""

import functools
import inspect

import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train import estimator_v1
from estimator_train._engine.model_fn import ModeKeys
from estimator_train.canned import v1 as canned_v1
from estimator_train.canned.canned_estimator import call_logit_fn
from estimator_train.canned.columns import input_layer, linear_model
from estimator_train.canned.dnn import DNNClassifier
from estimator_train.canned.dnn_linear_combined import DNNLinearCombinedClassifier
from estimator_train.canned.linear import LinearClassifier
from estimator_train.heads import BinaryClassHead

fc = tf.feature_column
v1 = tf.compat.v1


def arguments(function):
    return [(name, parameter.default) for name, parameter in inspect.signature(function).parameters.items()]


def learning_rate(estimator, optimizer):
    return estimator.get_variable_value(f"training/{optimizer}/learning_rate")


def test_v1_signatures_have_a_partitioner_and_the_weighted_sum():
    assert arguments(canned_v1.LinearClassifier)[6:] == [
        ("config", None),
        ("partitioner", None),
        ("warm_start_from", None),
        ("loss_reduction", "weighted_sum"),
        ("sparse_combiner", "sum"),
    ]
    assert arguments(canned_v1.DNNEstimator)[6:] == [
        ("dropout", None),
        ("input_layer_partitioner", None),
        ("config", None),
        ("warm_start_from", None),
        ("batch_norm", False),
    ]
    assert arguments(canned_v1.BaselineRegressor)[-1] == ("loss_reduction", "weighted_sum")
    assert issubclass(canned_v1.DNNClassifier, estimator_v1.Estimator)


@pytest.mark.slow
def test_v1_partitioner_splits_the_weights_of_columns(columns, examples):
    shapes = []

    def halves(shape, dtype):
        shapes.append(shape.as_list())
        return v1.fixed_size_partitioner(2)(shape=shape, dtype=dtype)

    linear = canned_v1.LinearClassifier(columns.wide[:1], partitioner=halves, optimizer="SGD")
    assert linear.train(examples(), steps=1).get_variable_value("linear/linear_model/a/weights").shape == (2, 1)
    assert [2, 1] in shapes
    shapes.clear()
    canned_v1.DNNClassifier([4], columns.deep, input_layer_partitioner=halves, optimizer="SGD").train(
        examples(), steps=1
    )
    assert shapes == [[3, 2]]


def weights_after_two_trainings(estimator, examples):
    estimator.train(examples(), steps=1).train(examples(), steps=1)
    weights = estimator.get_variable_value("linear/linear_model/a/weights").tolist()
    assert weights != [[0.0], [0.0]]
    return weights


@pytest.mark.slow
def test_an_optimizer_can_be_a_name_an_instance_or_a_function(generation, columns, examples):
    adam = v1.train.AdamOptimizer if generation.is_v1 else keras.optimizers.legacy.Adam
    by_name, by_instance, by_function = (
        weights_after_two_trainings(generation.LinearClassifier(columns.wide[:1], optimizer=optimizer), examples)
        for optimizer in ("Adam", adam(0.2), lambda: adam(0.2))
    )
    assert by_name == by_instance == by_function


@pytest.mark.slow
def test_a_new_keras_optimizer_trains_as_its_legacy_twin(columns, examples):
    new, legacy = (
        weights_after_two_trainings(LinearClassifier(columns.wide[:1], optimizer=optimizer), examples)
        for optimizer in (keras.optimizers.Adam(0.1), keras.optimizers.legacy.Adam(0.1))
    )
    assert new == legacy


@pytest.mark.slow
def test_learning_rates_by_name_depend_on_the_model(columns, examples):
    many = [fc.numeric_column(f"n{index}") for index in range(26)]  # one over the root of their number is less than 0.2

    def input_fn():
        return examples()().map(lambda f, label: ({**f, **{column.key: f["b"] for column in many}}, label))

    def train(estimator):
        return estimator.train(input_fn, steps=1)

    assert learning_rate(train(LinearClassifier(many)), "Ftrl") == pytest.approx(0.2)
    assert learning_rate(train(LinearClassifier(many, optimizer=None)), "Ftrl") == pytest.approx(26**-0.5)
    assert learning_rate(train(DNNClassifier([2], columns.deep[:1], optimizer="SGD")), "SGD") == pytest.approx(0.01)
    both = train(
        DNNLinearCombinedClassifier(
            linear_feature_columns=columns.wide[:1],
            dnn_feature_columns=columns.deep[:1],
            dnn_hidden_units=[2],
            dnn_optimizer="SGD",
        )
    )
    assert learning_rate(both, "Ftrl") == pytest.approx(0.005)
    assert learning_rate(both, "SGD") == pytest.approx(0.001)


def test_features_must_be_a_dict(generation, columns):
    for estimator in (generation.BaselineClassifier(), generation.LinearRegressor(columns.wide)):
        with pytest.raises(ValueError, match="features should be a dictionary of `Tensor`s"):
            estimator.train(lambda: tf.data.Dataset.from_tensors(([[1.0]], [[1]])), steps=1)


@pytest.mark.parametrize("kind", [linear_model, lambda *arguments: input_layer(*arguments[:2])])
def test_a_column_after_which_no_op_can_be_named_is_refused(kind, graph):
    column = fc.indicator_column(fc.categorical_column_with_vocabulary_list("price ($)", ["low", "high"]))
    column = column if kind is not linear_model else column.categorical_column
    with pytest.raises(ValueError, match=r"after the column 'price \(\$\)': rename it, and the feature, with letters"):
        kind({"price ($)": tf.constant([["low"]])}, [column], 1, "sum")


def test_logits_of_another_size_than_the_head_takes_are_refused(columns, examples):
    head = BinaryClassHead()
    with tf.Graph().as_default(), pytest.raises(ValueError, match="logits"):
        head.create_estimator_spec({}, ModeKeys.PREDICT, tf.zeros([3, 2]))


def test_call_logit_fn_gives_what_is_named():
    with tf.Graph().as_default():
        logits = call_logit_fn(lambda features, mode: tf.constant(f"{features}{mode}"), 1, "train", 2, 3)
        assert v1.Session().run(logits) == b"1train"
        logits = call_logit_fn(lambda features, params, config: {"a": tf.constant([params, config])}, 1, "train", 2, 3)
        assert v1.Session().run(logits["a"]).tolist() == [2, 3]
        bound = functools.partial(lambda features, params: tf.constant(params), params=4)
        assert v1.Session().run(call_logit_fn(bound, 1, "train", 2, 3)) == 4
    with pytest.raises(ValueError, match="should return a Tensor"):
        call_logit_fn(lambda features: 3, 1, "train", None, None)
