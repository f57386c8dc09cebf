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


def learning_rates(estimator, input_fn):
    """Returns the initial learning rates of a training by the optimizers' names."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.create_global_step()
        features, labels = v1.data.make_one_shot_iterator(input_fn()).get_next()
        estimator.model_fn(features, labels, ModeKeys.TRAIN, estimator.config)
        rates = [each for each in v1.global_variables() if each.op.name.endswith("/learning_rate")]
        session.run([rate.initializer for rate in rates])
        return {rate.op.name.split("/")[-2]: pytest.approx(session.run(rate)) for rate in rates}


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


@pytest.mark.slow
def test_an_optimizer_can_be_a_name_an_instance_or_a_function(generation, columns, examples):
    input_fn = examples(batch_size=16)  # the same batch at each step

    def weights(optimizer, *goes):
        estimator = generation.LinearClassifier(columns.wide[:1], optimizer=optimizer)
        for steps in goes:
            estimator.train(input_fn, steps=steps)
        return estimator.get_variable_value("linear/linear_model/a/weights").tolist()

    adam = v1.train.AdamOptimizer if generation.is_v1 else keras.optimizers.legacy.Adam
    by_name = weights("Adam", 2)
    assert by_name == weights(adam(0.2), 1, 1) == weights(lambda: adam(0.2), 2) != [[0.0], [0.0]]
    assert generation.is_v1 or by_name == weights(keras.optimizers.Adam(0.2), 1, 1)  # as its legacy twin


@pytest.mark.slow
def test_learning_rates_by_name_depend_on_the_model(columns, examples):
    many = [fc.numeric_column(f"n{index}") for index in range(26)]  # one over the root of their number is less than 0.2

    def input_fn():
        return examples()().map(lambda f, label: ({**f, **{column.key: f["b"] for column in many}}, label))

    deep = {"dnn_feature_columns": columns.deep[:1], "dnn_hidden_units": [2], "dnn_optimizer": "SGD"}
    both = DNNLinearCombinedClassifier(linear_feature_columns=columns.wide[:1], **deep)
    for estimator, expected in (
        (LinearClassifier(many), {"Ftrl": 0.2}),
        (LinearClassifier(many, optimizer=None), {"Ftrl": 26**-0.5}),
        (DNNClassifier([2], columns.deep[:1], optimizer="SGD"), {"SGD": 0.01}),
        (both, {"Ftrl": 0.005, "SGD": 0.001}),
    ):
        assert learning_rates(estimator, input_fn) == expected


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
