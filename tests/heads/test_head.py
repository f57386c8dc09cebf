"""Tests what custom heads inherit from Head, and the training op of every head."""

import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train import DNNEstimator, Estimator, RunConfig, input_fns
from estimator_train._engine.model_fn import ModeKeys
from estimator_train.export import PredictOutput
from estimator_train.heads import BinaryClassHead, Head, RegressionHead

v1 = tf.compat.v1


class SumHead(Head):
    """Makes the sum of the logits the loss."""

    name = None
    logits_dimension = 2
    loss_reduction = "sum"

    def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
        return tf.reduce_sum(logits)

    def predictions(self, logits, keys=None):
        return {"logits": logits}

    def metrics(self, regularization_losses=None):
        return {"mean": keras.metrics.Mean()}

    def update_metrics(self, eval_metrics, features, logits, labels, regularization_losses=None):
        eval_metrics["mean"].update_state(logits)
        return eval_metrics


def test_a_head_needs_all_of_the_interface():
    with pytest.raises(TypeError, match="abstract"):
        Head()


@pytest.mark.smoke
def test_a_head_of_ones_own_makes_every_spec(run, evaluate):
    logits = v1.get_variable("logits", initializer=[[1.0, 2.0]])
    head = SumHead()
    exported = head.create_estimator_spec({}, ModeKeys.PREDICT, logits.read_value()).export_outputs
    assert {key: type(output) for key, output in exported.items()} == {
        "serving_default": PredictOutput,
        "predict": PredictOutput,
    }
    assert evaluate(head.create_estimator_spec({}, ModeKeys.EVAL, logits.read_value())) == {"loss": 3.0, "mean": 1.5}
    spec = head.create_estimator_spec(
        {}, ModeKeys.TRAIN, logits.read_value(), optimizer=keras.optimizers.SGD(1.0), trainable_variables=[logits]
    )
    assert run(spec.train_op, logits).tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("reduction", "moved", "optimizer"),
    [
        ("sum", 4.0, keras.optimizers.SGD),
        pytest.param("sum", 4.0, v1.train.GradientDescentOptimizer, marks=pytest.mark.slow),
        pytest.param("sum_over_batch_size", 2.0, keras.optimizers.SGD, marks=pytest.mark.slow),
        pytest.param("sum_over_batch_size", 2.0, v1.train.GradientDescentOptimizer, marks=pytest.mark.slow),
    ],
)
def test_a_heads_reduction_says_how_replicas_gradients_are_joined(reduction, moved, optimizer, mirrored, tmp_path):
    class Own(SumHead):
        loss_reduction = reduction

    def model_fn(features, labels, mode):
        weight = v1.get_variable("weight", initializer=0.0)
        logits = weight * features
        return Own().create_estimator_spec(
            {}, mode, logits, optimizer=optimizer(1.0), trainable_variables=v1.trainable_variables()
        )

    config = RunConfig(tmp_path, train_distribute=mirrored(2))
    estimator = Estimator(model_fn, config=config)
    estimator.train(lambda: tf.data.Dataset.from_tensors(tf.ones([2, 1])).repeat(), steps=1)
    assert estimator.get_variable_value("weight") == -moved


class HuberHead(Head):  # as in docs/api/heads.md
    name, logits_dimension, loss_reduction = None, 1, "sum_over_batch_size"

    def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
        return tf.add_n([v1.losses.huber_loss(labels, logits), *(regularization_losses or [])])

    def predictions(self, logits, keys=None):
        return {"predictions": logits}

    def metrics(self, regularization_losses=None):
        return {"mae": keras.metrics.MeanAbsoluteError()}

    def update_metrics(self, eval_metrics, features, logits, labels, regularization_losses=None):
        eval_metrics["mae"].update_state(labels, logits)
        return eval_metrics


@pytest.mark.parametrize(
    "optimizer", [keras.optimizers.Adam, pytest.param(keras.optimizers.legacy.Adam, marks=pytest.mark.slow)]
)
def test_a_model_fn_may_pass_a_keras_optimizer_in_every_mode(optimizer, tmp_path):
    def model_fn(features, labels, mode):
        logits = v1.layers.dense(features["x"], 1, kernel_initializer=v1.zeros_initializer())
        optimizers = {"optimizer": optimizer(0.5), "trainable_variables": v1.trainable_variables()}
        return HuberHead().create_estimator_spec(features, mode, logits, labels, **optimizers)

    estimator = Estimator(model_fn, str(tmp_path))
    input_fn = input_fns.arrays({"x": [[1.0], [1.0]]}, [[1.0], [3.0]], batch_size=2)
    assert estimator.train(input_fn).evaluate(input_fn) == pytest.approx(
        {"loss": 0.75, "mae": 1, "global_step": 1}, rel=1e-5
    )
    assert [value["predictions"].tolist() for value in estimator.predict(input_fn)] == [[pytest.approx(1, 1e-5)]] * 2


@pytest.mark.slow
def test_a_head_of_ones_own_fits_into_a_canned_estimator(tmp_path):
    estimator = DNNEstimator(HuberHead(), [2], [tf.feature_column.numeric_column("x")], str(tmp_path))
    input_fn = input_fns.arrays({"x": [[1.0], [1.0]]}, [[1.0], [3.0]], batch_size=2)
    assert estimator.train(input_fn).evaluate(input_fn).keys() == {"loss", "mae", "global_step"}


def test_methods_that_return_something_else_are_named():
    logits, labels = tf.zeros([2, 1]), tf.ones([2, 1])
    head = HuberHead()
    head.update_metrics = lambda *arguments: None
    with pytest.raises(ValueError, match="HuberHead.update_metrics must return the metrics, not None"):
        head.create_estimator_spec({}, ModeKeys.EVAL, logits, labels)
    head.loss = lambda labels, logits, *others: labels - logits
    with pytest.raises(ValueError, match=r"HuberHead.loss must return a scalar, not a tensor of shape \(2, 1\)"):
        head.create_estimator_spec({}, ModeKeys.EVAL, logits, labels)


def train_spec(**arguments):
    weight = v1.get_variable("weight", initializer=[[1.0]])
    arguments = {name: value([weight]) if callable(value) else value for name, value in arguments.items()}
    return RegressionHead().create_estimator_spec({}, ModeKeys.TRAIN, weight.read_value(), [[3.0]], **arguments)


def test_train_op_fn_makes_the_training_op(run):
    counter = v1.get_variable("counter", initializer=0.0)
    spec = train_spec(train_op_fn=lambda _: counter.assign_add)
    assert run(spec.train_op, counter) == 4.0  # the loss


def test_update_ops_run_with_the_training_op(run):
    counter = v1.get_variable("counter", initializer=0.0)
    optimizer = v1.train.GradientDescentOptimizer(0.5)
    spec = train_spec(optimizer=optimizer, update_ops=[counter.assign_add(1.0)])
    weight = v1.global_variables()[1]
    assert run(spec.train_op, [counter, weight]) == [1.0, [[3.0]]]


def test_training_writes_the_losses(graph):
    head = BinaryClassHead(name="clicks")
    head.create_estimator_spec(
        {},
        ModeKeys.TRAIN,
        tf.zeros([1, 1]),
        [[1]],
        train_op_fn=lambda loss: tf.no_op(),
        regularization_losses=[tf.constant(1.0)],
    )
    tags = {summary.op.name for summary in v1.get_collection(v1.GraphKeys.SUMMARIES)}
    assert tags == {"loss/clicks", "regularization_loss/clicks"}


def test_optimizer_variables_have_the_names_of_tf_215(graph):
    train_spec(optimizer=keras.optimizers.Adam(0.5), trainable_variables=list)
    names = {variable.op.name for variable in v1.global_variables()}
    assert {"training/Adam/weight/m", "training/Adam/weight/v", "training/Adam/beta_1"} < names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "train_op_fn and optimizer cannot both be None"),
        (
            {"optimizer": keras.optimizers.legacy.SGD(0.5), "train_op_fn": lambda _: tf.no_op},
            "train_op_fn and optimizer cannot both be set",
        ),
        ({"optimizer": keras.optimizers.legacy.SGD(0.5)}, "trainable_variables cannot be None"),
        ({"train_op_fn": lambda _: lambda loss: loss, "update_ops": 7}, "update_ops should be a list or a tuple"),
        (
            {"optimizer": "SGD", "trainable_variables": list},
            "is not a tf.keras.optimizers.Optimizer instance.* Given: 'SGD'",
        ),
    ],
)
def test_what_cannot_train_is_refused(arguments, message, graph):
    with pytest.raises(ValueError, match=message):
        train_spec(**arguments)


@pytest.mark.slow
def test_an_estimator_trains_evaluates_and_predicts_with_a_head(tmp_path):
    data = {"x": [[0.0], [1.0], [2.0], [3.0]]}

    def input_fn():
        return tf.data.Dataset.from_tensor_slices((data, ["no", "no", "yes", "yes"])).batch(2)

    def model_fn(features, labels, mode):
        weight, bias = v1.get_variable("weight", initializer=[[0.0]]), v1.get_variable("bias", initializer=[0.0])
        return BinaryClassHead(label_vocabulary=["no", "yes"]).create_estimator_spec(
            features,
            mode,
            features["x"] @ weight + bias,
            labels,
            optimizer=keras.optimizers.Adam(0.5) if mode == ModeKeys.TRAIN else None,
            trainable_variables=[weight, bias],
        )

    estimator = Estimator(model_fn, tmp_path, RunConfig(save_summary_steps=None))
    estimator.train(lambda: input_fn().repeat(), max_steps=100)
    results = estimator.evaluate(input_fn)
    assert results["accuracy"] == 1.0
    assert results["global_step"] == 100
    assert [prediction["classes"].item() for prediction in estimator.predict(input_fn)] == [b"no"] * 2 + [b"yes"] * 2
