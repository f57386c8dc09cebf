"""Every canned estimator trains, evaluates and predicts, through the Estimator's own verbs.

Tests take a model in one of the generations: the tests of the single modules train both, and each model's regressor.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tf215_losses import generations

from estimator_train.canned.parse_example_spec import classifier_parse_example_spec
from estimator_train.estimator import Estimator
from estimator_train.heads import BinaryClassHead, MultiHead, RegressionHead

CLASSIFIER_KEYS = {
    "logits",
    "logistic",
    "probabilities",
    "class_ids",
    "classes",
    "all_class_ids",
    "all_classes",
}


@pytest.fixture
def few_columns(columns):
    """One column of numbers and one of a category for each model, where no test looks at numbers."""
    return SimpleNamespace(wide=[columns.wide[0], columns.wide[2]], deep=[columns.deep[0], columns.deep[3]])


def make(generation, kind, model, columns, head=None, **arguments):
    """Makes a small estimator by name, such as DNNClassifier."""
    if model == "DNN":
        arguments |= {"hidden_units": [4], "feature_columns": columns.deep}
    elif model == "Linear":
        arguments |= {"feature_columns": columns.wide}
    elif model == "DNNLinearCombined":
        arguments |= {
            "linear_feature_columns": columns.wide,
            "dnn_feature_columns": columns.deep,
            "dnn_hidden_units": [4],
        }
    if head is not None:
        arguments["head"] = head
    return getattr(generation, f"{model}{kind}")(**arguments)


def models(*cases):
    """Returns the cases of a generation and a model."""
    return pytest.mark.parametrize(("generation", "model"), cases, indirect=["generation"])


def losses(log_lines):
    """Returns the losses of the first and the last logged step."""
    (first,) = (float(line.split(",")[0].removeprefix("loss = ")) for line in log_lines if line.endswith("step = 0"))
    *_, last = (float(line.split()[-1].rstrip(".")) for line in log_lines if line.startswith("Loss for final step"))
    return first, last


@pytest.mark.slow
@models(("v2", "DNN"), ("v1", "DNNLinearCombined"))
def test_the_classifier_learns_and_predicts_classes(generation, model, columns, examples, tmp_path, log_lines):
    estimator = make(generation, "Classifier", model, columns, model_dir=tmp_path).train(examples(), steps=19)
    first, last = losses(log_lines)  # of the same batch
    assert last < first
    results = estimator.evaluate(examples(), steps=2)
    assert results["loss"] < first
    assert {"accuracy", "auc", "precision", "recall", "label/mean", "average_loss", "global_step"} <= set(results)
    prediction = next(estimator.predict(examples()))
    assert set(prediction) == CLASSIFIER_KEYS
    assert prediction["probabilities"].shape == (2,)
    assert prediction["classes"].shape == (1,)


@pytest.mark.smoke
@models(
    ("v2", "DNNLinearCombined"),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in [("v1", "DNNLinearCombined"), ("v2", "Linear"), ("v1", "DNN"), ("v2", "Baseline")]
    ),
)
def test_three_classes_have_three_probabilities(generation, model, few_columns, examples):
    estimator = make(generation, "Classifier", model, few_columns, n_classes=3)
    estimator.train(examples(labels=lambda label: 2 * label), steps=2)
    prediction = next(estimator.predict(examples()))
    assert prediction["probabilities"].shape == (3,)
    assert set(prediction) == CLASSIFIER_KEYS - {"logistic"}


@pytest.mark.slow
@models(("v2", "Linear"), ("v1", "DNNLinearCombined"))
def test_regressor_learns_two_numbers(generation, model, few_columns, examples, log_lines):
    estimator = make(generation, "Regressor", model, few_columns, label_dimension=2)
    input_fn = examples(labels=lambda label: np.concatenate([label + 1, label - 1], axis=1).astype("float32"))
    results = estimator.train(input_fn, steps=19).evaluate(input_fn, steps=2)
    first, last = losses(log_lines)  # of the same batch
    assert last < first and results["loss"] < first
    assert {"average_loss", "label/mean", "prediction/mean"} <= set(results)
    assert next(estimator.predict(input_fn))["predictions"].shape == (2,)


@pytest.mark.slow
@models(("v2", "Linear"), ("v1", "DNNLinearCombined"))
def test_estimator_takes_several_heads(generation, model, few_columns, examples):
    head = MultiHead([BinaryClassHead(name="sign"), RegressionHead(2, name="pair")])
    estimator = make(generation, "Estimator", model, few_columns, head)
    input_fn = examples(labels=lambda label: {"sign": label, "pair": np.concatenate([label, -label], 1) * 1.0})
    results = estimator.train(input_fn, steps=2).evaluate(input_fn, steps=2)
    assert results["loss"] == pytest.approx(results["loss/sign"] + results["loss/pair"], rel=1e-5)
    assert results["global_step"] == 2


@generations(slow="v2")
def test_predictions_have_the_op_names_by_which_programs_freeze_graphs(generation, tmp_path):
    x = tf.feature_column.numeric_column("x")
    scopes = {"dnn": "dnn/", "linear": "linear/", "both": ""}
    ends = {"probabilities": "probabilities", "logistic": "logistic", "classes": "str_classes"}
    made = {
        "dnn": lambda: generation.DNNClassifier([2], [x], str(tmp_path)),
        "linear": lambda: generation.LinearClassifier([x], str(tmp_path)),
        "both": lambda: generation.DNNLinearCombinedClassifier(str(tmp_path), [x]),
    }
    for kind, scope in scopes.items():
        with tf.Graph().as_default():
            tf.compat.v1.train.create_global_step()
            spec = made[kind]().model_fn({"x": tf.ones([2, 1])}, None, "infer", None)
        head = f"{scope}head" if generation.is_v1 else "head"
        names = {key: spec.predictions[key].op.name for key in ends}
        assert names == {key: f"{head}/predictions/{end}" for key, end in ends.items()}


@generations(slow="v2")
def test_model_fn_called_in_a_variable_scope_trains_its_variables(generation, few_columns, examples):
    inner = make(generation, "Classifier", "DNNLinearCombined", few_columns)

    def model_fn(features, labels, mode, config):
        with tf.compat.v1.variable_scope("part.1"):
            return inner.model_fn(features, labels, mode, config)

    estimator = Estimator(model_fn, config=inner.config).train(examples(), steps=1)
    for bias in ("linear/linear_model/bias_weights", "dnn/logits/bias"):
        assert estimator.get_variable_value(f"part.1/{bias}").any(), bias


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["v2"], indirect=True)
def test_batch_norm_and_dropout_are_of_training_only(generation, few_columns, examples):
    estimator = generation.DNNClassifier([4, 3], few_columns.deep, dropout=0.5, batch_norm=True)
    estimator.train(examples(), steps=3)
    assert estimator.get_variable_value("dnn/hiddenlayer_0/batchnorm_0/moving_mean").any()
    first, second = (estimator.evaluate(examples(), steps=2)["loss"] for _ in range(2))
    assert first == second
    one = next(estimator.predict(examples(batch_size=8)))
    other = next(estimator.predict(examples(batch_size=16)))
    np.testing.assert_allclose(one["logits"], other["logits"], rtol=1e-5)


@pytest.mark.slow
def test_a_shared_embedding_is_trained(generation, examples):
    with tf.Graph().as_default():  # TensorFlow makes these columns nowhere else
        fc = tf.feature_column
        one, other = (fc.categorical_column_with_vocabulary_list(key, ["x", "y", "z"]) for key in ("c", "d"))
        shared = fc.shared_embeddings([one, other], 2)

    def input_fn():
        return examples()().map(lambda features, label: ({**features, "d": features["c"]}, label))

    estimator = generation.DNNClassifier([16], shared).train(input_fn, steps=1)
    (name,) = (name for name in estimator.get_variable_names() if name.endswith("c_d_shared_embedding"))
    before = estimator.get_variable_value(name)
    assert (estimator.train(input_fn, steps=3).get_variable_value(name) != before).any()


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["v1"], indirect=True)
def test_a_shared_embedding_of_tf1_is_one_table_of_both_branches(generation, examples):
    with tf.Graph().as_default():  # TensorFlow makes these columns nowhere else
        category = tf.feature_column.categorical_column_with_vocabulary_list("c", ["x", "y", "z"])
        shared = tf.compat.v1.feature_column.shared_embedding_columns([category], 2)
    b = tf.feature_column.numeric_column("b")
    estimator = generation.DNNLinearCombinedClassifier(
        linear_feature_columns=[*shared, b], dnn_feature_columns=[*shared, b], dnn_hidden_units=[2]
    )
    names = estimator.train(examples(), steps=1).get_variable_names()
    table = "dnn/input_from_feature_columns/input_layer/c_shared_embedding/embedding_weights"  # as in 2.15
    assert [name for name in names if "embedding_weights" in name] == [table, f"{table}/Adagrad"]
    assert estimator.get_variable_value("linear/linear_model/c_shared_embedding/weights").any()
    assert sorted(classifier_parse_example_spec(shared, "label", weight_column="b")) == ["b", "c", "label"]


@pytest.mark.parametrize("generation", ["v2"], indirect=True)
def test_a_feature_of_another_shape_is_not_taken_for_more_examples(generation):
    estimator = generation.LinearRegressor([tf.feature_column.numeric_column("b")])
    with pytest.raises(ValueError, match="Cannot reshape a tensor with 6 elements"):
        next(estimator.predict(lambda: tf.data.Dataset.from_tensors({"b": tf.ones([3, 2])})))
