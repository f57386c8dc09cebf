"""Names of the variables in checkpoints, as TensorFlow 2.15.1 with its own tf.estimator writes them."""

import pytest
from tf215_losses import generations

LINEAR = [
    "linear/linear_model/a/weights",
    "linear/linear_model/b_bucketized/weights",
    "linear/linear_model/b_bucketized_X_c/weights",
    "linear/linear_model/bias_weights",
    "linear/linear_model/c/weights",
]
DNN = [
    "dnn/hiddenlayer_0/bias",
    "dnn/hiddenlayer_0/kernel",
    "dnn/input_from_feature_columns/input_layer/c_embedding/embedding_weights",
    "dnn/logits/bias",
    "dnn/logits/kernel",
]
BATCH_NORM = ["dnn/hiddenlayer_0/batchnorm_0/beta", "dnn/hiddenlayer_0/batchnorm_0/gamma"]
MOVING = ["dnn/hiddenlayer_0/batchnorm_0/moving_mean", "dnn/hiddenlayer_0/batchnorm_0/moving_variance"]
ADAGRAD = ["decay", "learning_rate"]
ADAM = ["beta_1", "beta_2", "decay", "learning_rate"]
FTRL = [
    "beta",
    "decay",
    "l1_regularization_strength",
    "l2_regularization_strength",
    "learning_rate",
    "learning_rate_power",
]


def keras(optimizer, hyper, variables, slots):
    """Returns the names that a Keras optimizer adds."""
    names = hyper + [f"{variable}/{slot}" for variable in variables for slot in slots]
    return [f"training/{optimizer}/{name}" for name in names]


def slots(variables, *names):
    """Returns the names that a v1 optimizer adds."""
    return [f"{variable}/{name}" for variable in variables for name in names]


def assert_names(estimator, input_fn, expected):
    assert estimator.train(input_fn, steps=1).get_variable_names() == sorted([*expected, "global_step"])


@generations(slow="v1")
def test_linear(generation, columns, examples):
    added = (
        slots(LINEAR, "part_0/Ftrl", "part_0/Ftrl_1")
        if generation.is_v1
        else keras("Ftrl", FTRL, LINEAR, ["accumulator", "linear"])
    )
    assert_names(generation.LinearClassifier(columns.wide), examples(), LINEAR + added)


@generations(slow="v2")
def test_linear_with_an_embedding(generation, columns, examples):
    variables = [
        "linear/linear_model/bias_weights",
        "linear/linear_model/c_embedding/embedding_weights",
        "linear/linear_model/c_embedding/weights",
    ]
    added = (
        [*slots(variables, "part_0/Adam", "part_0/Adam_1"), "linear/head/beta1_power", "linear/head/beta2_power"]
        if generation.is_v1
        else keras("Adam", ADAM, variables, ["m", "v"])
    )
    assert_names(generation.LinearRegressor(columns.deep[-1:], optimizer="Adam"), examples(), variables + added)


@generations(slow="v1")
def test_dnn_with_batch_norm(generation, columns, examples):
    variables = DNN + BATCH_NORM
    added = (
        slots(variables, "t_0/Adagrad") if generation.is_v1 else keras("Adagrad", ADAGRAD, variables, ["accumulator"])
    )
    estimator = generation.DNNClassifier([4], columns.deep, batch_norm=True)
    assert_names(estimator, examples(), variables + MOVING + added)


@generations(slow="v2")
def test_dnn_with_adam(generation, columns, examples):
    added = (
        [*slots(DNN, "t_0/Adam", "t_0/Adam_1"), "dnn/head/beta1_power", "dnn/head/beta2_power"]
        if generation.is_v1
        else keras("Adam", ADAM, DNN, ["m", "v"])
    )
    assert_names(generation.DNNClassifier([4], columns.deep, optimizer="Adam"), examples(), DNN + added)


@generations(slow="v2")
def test_wide_and_deep(generation, columns, examples):
    added = (
        slots(DNN, "Adagrad") + slots(LINEAR, "Ftrl", "Ftrl_1")
        if generation.is_v1
        else keras("Adagrad", ADAGRAD, DNN, ["accumulator"])
        + keras("Ftrl", [*FTRL, "iter"], LINEAR, ["accumulator", "linear"])
    )
    estimator = generation.DNNLinearCombinedClassifier(
        linear_feature_columns=columns.wide, dnn_feature_columns=columns.deep, dnn_hidden_units=[4]
    )
    assert_names(estimator, examples(), LINEAR + DNN + added)


@generations(slow="v2")
def test_wide_and_deep_without_the_wide_part(generation, columns, examples):
    added = slots(DNN, "Adagrad") if generation.is_v1 else keras("Adagrad", ADAGRAD, DNN, ["accumulator"])
    estimator = generation.DNNLinearCombinedClassifier(dnn_feature_columns=columns.deep, dnn_hidden_units=[4])
    assert_names(estimator, examples(), DNN + added)


@pytest.mark.slow
def test_wide_and_deep_with_two_optimizers_of_a_kind(generation, columns, examples):
    powers = ["beta1_power", "beta1_power_1", "beta2_power", "beta2_power_1"]
    added = (
        slots(DNN + LINEAR, "Adam", "Adam_1") + [f"head/{power}" for power in powers]
        if generation.is_v1
        else keras("Adam", ADAM, DNN, ["m", "v"]) + keras("Adam_1", [*ADAM, "iter"], LINEAR, ["m", "v"])
    )
    estimator = generation.DNNLinearCombinedClassifier(
        linear_feature_columns=columns.wide,
        linear_optimizer="Adam",
        dnn_feature_columns=columns.deep,
        dnn_optimizer="Adam",
        dnn_hidden_units=[4],
    )
    assert_names(estimator, examples(), LINEAR + DNN + added)


@generations(slow="v2")
def test_baseline(generation, examples):
    variables = ["baseline/bias"]
    added = (
        slots(variables, "Ftrl", "Ftrl_1")
        if generation.is_v1
        else keras("Ftrl", FTRL, variables, ["accumulator", "linear"])
    )
    assert_names(generation.BaselineClassifier(), examples(), variables + added)
